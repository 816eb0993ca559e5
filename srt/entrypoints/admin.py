"""Control: forget the cache, end requests."""

import msgspec
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from srt.engine_client import EngineClient
from srt.entrypoints.request_body import read_json
from srt.errors import InvalidRequest

MAX_FLUSH_TIMEOUT_S = 600.0


class AbortBody(msgspec.Struct, kw_only=True):
    """POST /abort_request."""

    rid: str | None = None
    abort_all: bool | None = None


_ABORT_DECODER = msgspec.json.Decoder(AbortBody)


class Admin:
    """The endpoints."""

    def __init__(self, client: EngineClient) -> None:
        self._client = client

    async def flush_cache(self, request: Request) -> Response:
        """GET or POST /flush_cache?timeout=s: 200 when it is done, 400 and nothing done while requests run."""
        timeout_s = _parse_timeout(request.query_params.get("timeout", "0"))
        reason = await self._client.flush_cache(timeout_s=timeout_s)
        if reason is not None:
            raise InvalidRequest(reason)
        return JSONResponse({"success": True, "message": "cache flushed"})

    async def abort_request(self, request: Request) -> Response:
        """POST /abort_request: by exact rid, or all. An unknown rid is no error: it may just have ended."""
        body = await read_json(request.scope, request.receive, _ABORT_DECODER)
        if body.abort_all:
            self._client.abort_all()
        elif body.rid:
            self._client.abort(body.rid)
        else:
            raise InvalidRequest("rid or abort_all is needed", param="rid")
        return JSONResponse({"success": True})


def _parse_timeout(text: str) -> float:
    try:
        timeout_s = float(text)
    except ValueError:
        timeout_s = -1.0
    if not 0.0 <= timeout_s <= MAX_FLUSH_TIMEOUT_S:
        raise InvalidRequest(f"timeout must be 0 to {MAX_FLUSH_TIMEOUT_S:.0f} seconds", param="timeout")
    return timeout_s
