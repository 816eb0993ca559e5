"""GET /metrics: everything that is counted, for Prometheus. Answers for every process of the server, out of memory."""

from starlette.requests import Request
from starlette.responses import Response

from srt.engine_client import EngineClient
from srt.entrypoints.telemetry import Endpoints
from srt.errors import NotFound
from srt.observability.exposition import CONTENT_TYPE, render
from srt.server_args.server_args import ServerArgs


class Metrics:
    """The endpoint."""

    def __init__(self, client: EngineClient, args: ServerArgs) -> None:
        self._client = client
        self._is_enabled = args.enable_metrics
        self._prefix = args.metrics_prefix

    async def metrics(self, request: Request) -> Response:
        """The page, or a 404 that says which flag is missing."""
        if not self._is_enabled:
            raise NotFound("there are no metrics: the server was started without --enable-metrics")
        endpoints = Endpoints.of(request.scope["router"].routes)
        model_name = self._client.model_info.served_model_name
        families = [*self._client.metrics(), *endpoints.families(self._client.all_counts(), model_name)]
        return Response(render(families, self._prefix), headers={"content-type": CONTENT_TYPE})
