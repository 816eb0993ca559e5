"""`Telemetry`, the outermost layer: counts HTTP requests, times each from its first byte to its last, logs if asked.

A stream's events do not pass here: what is done is done when a request begins and when its last byte has left.
"""

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Self

from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from srt.entrypoints.http_protocol import FIRST_BYTE
from srt.entrypoints.middleware import request_label, response_status
from srt.entrypoints.request_tracing import RequestTracer
from srt.observability import metric_catalogue as m
from srt.observability.exposition import Family, Sample
from srt.observability.front_counts import NUM_ENDPOINTS, STATUSES, FrontCounts
from srt.observability.logging import fields
from srt.observability.request_timing import Visit, begin_visit

logger = logging.getLogger(__name__)

OTHER = "other"
# What nginx calls a client that leaves before there is an answer.
CLIENT_LEFT = 499


class Endpoints:
    """A number for each route and method, always the same for the same routes; everything else is the last number."""

    def __init__(self, names: Sequence[tuple[str, str]]) -> None:
        assert len(names) < NUM_ENDPOINTS, f"{len(names)} endpoints are more than there are counters"
        self.names = names
        self._numbers = {name: number for number, name in enumerate(names)}
        self._prefixes = [(path.partition("{")[0], path) for path, _ in names if "{" in path]

    @classmethod
    def of(cls, routes: Sequence[BaseRoute]) -> Self:
        """Those of a router."""
        return cls(
            [
                (route.path, method)
                for route in routes
                if isinstance(route, Route)
                for method in sorted((route.methods or set()) - {"HEAD"})
            ]
        )

    def number(self, path: str, method: str) -> int:
        """A HEAD counts as a GET."""
        method = "GET" if method == "HEAD" else method
        number = self._numbers.get((path, method))
        if number is None:
            template = next((whole for prefix, whole in self._prefixes if path.startswith(prefix)), OTHER)
            number = self._numbers.get((template, method), NUM_ENDPOINTS - 1)
        return number

    def families(self, all_counts: Sequence[FrontCounts], model_name: str) -> Iterator[Family]:
        """The series of every endpoint that was ever asked, summed over all processes that serve HTTP."""
        begun: list[Sample] = []
        active: list[Sample] = []
        ended: list[Sample] = []
        for number, (path, method) in (*enumerate(self.names), (NUM_ENDPOINTS - 1, (OTHER, OTHER))):
            read = [counts.http.read(number) for counts in all_counts]
            num_begun = sum(num for num, _ in read)
            if not num_begun:
                continue
            labels = {"model_name": model_name, "endpoint": path, "method": method}
            by_status = [sum(column) for column in zip(*(statuses for _, statuses in read), strict=True)]
            begun.append(Sample(labels, num_begun))
            active.append(Sample(labels, max(num_begun - sum(by_status), 0)))
            ended += _by_status(labels, by_status)
        yield Family(m.HTTP_REQUESTS, begun)
        yield Family(m.HTTP_RESPONSES, ended)
        yield Family(m.HTTP_ACTIVE, active)


def _by_status(labels: Mapping[str, str], nums: Sequence[int]) -> Iterator[Sample]:
    for status, num in zip((*STATUSES, OTHER), nums, strict=True):
        if num:
            yield Sample({**labels, "status_code": str(status)}, num)


class Telemetry:
    """`slow_s` None: no request is slow. `logs_access`: a line for every request. `tracer` None: no traces."""

    def __init__(
        self,
        app: ASGIApp,
        counts: FrontCounts,
        endpoints: Endpoints,
        *,
        slow_s: float | None = None,
        logs_access: bool = False,
        tracer: RequestTracer | None = None,
    ) -> None:
        self._app = app
        self._counts = counts
        self._endpoints = endpoints
        self._slow_s = slow_s
        self._logs_access = logs_access
        self._tracer = tracer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, and look at it again when it is over, however it ends."""
        state = scope.setdefault("state", {})
        visit = begin_visit(state.get(FIRST_BYTE) or time.monotonic())
        endpoint = self._endpoints.number(scope["path"], scope["method"])
        self._counts.http.begin(endpoint)
        try:
            await self._app(scope, receive, send)
        finally:
            self._counts.http.end(endpoint, response_status(scope) or CLIENT_LEFT)
            self._note_end(scope, visit)

    def _note_end(self, scope: Scope, visit: Visit) -> None:
        if visit.timing is not None:
            visit.timing.note_written()
            self._counts.note_segments(visit.timing)
        ended = time.monotonic()
        duration_s = ended - visit.received
        if self._slow_s is not None and duration_s >= self._slow_s:
            segments = {} if visit.timing is None else visit.timing.segments()
            timeline = {f"{name}_s": round(seconds, 4) for name, seconds in segments.items()}
            logger.warning("slow request", extra=fields(**_describe(scope, duration_s), **timeline))
        if self._logs_access:
            logger.info("access", extra=fields(client=_client(scope), **_describe(scope, duration_s)))
        if self._tracer is not None:
            self._tracer.note_end(scope, visit, ended)


def _describe(scope: Scope, duration_s: float) -> dict[str, object]:
    return {
        "label": request_label(scope),
        "method": scope["method"],
        "path": scope["path"],  # without the query, which may hold anything
        "status": response_status(scope) or CLIENT_LEFT,
        "duration_s": round(duration_s, 4),
    }


def _client(scope: Scope) -> str:
    host, port = scope.get("client") or ("", 0)
    return f"{host}:{port}"
