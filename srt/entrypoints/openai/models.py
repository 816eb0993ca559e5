"""GET /v1/models and /v1/models/{id}: the one model that is served."""

import time
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from srt.engine_client import EngineClient
from srt.errors import ModelNotFound


class Models:
    """What OpenAI's clients list to find a model's name."""

    def __init__(self, client: EngineClient) -> None:
        self._client = client
        self._created = int(time.time())

    async def list_models(self, request: Request) -> Response:
        """A list of one."""
        return JSONResponse({"object": "list", "data": [self._card()]})

    async def get_model(self, request: Request) -> Response:
        """Its card. Raises ModelNotFound for any other name."""
        name = request.path_params["model"]
        served = self._client.model_info.served_model_name
        if name != served:
            raise ModelNotFound(f"the model {name!r} is not served here; {served!r} is", param="model")
        return JSONResponse(self._card())

    def _card(self) -> dict[str, Any]:
        model = self._client.model_info
        return {
            "id": model.served_model_name,
            "object": "model",
            "created": self._created,
            "owned_by": "lockstep",
            "root": model.model_path,
            "parent": None,
            "max_model_len": model.context_length,
        }
