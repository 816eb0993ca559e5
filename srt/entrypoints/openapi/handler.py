"""GET /openapi.json, /docs and /: what this server is, for programs and for people."""

from pathlib import Path

import msgspec
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

import srt
from srt.engine_client import EngineClient
from srt.entrypoints.openapi.document import openapi_document
from srt.entrypoints.static_page import StaticPage
from srt.server_args.server_args import ServerArgs

LINKS = {
    "playground": "/playground",
    "docs": "/docs",
    "openapi": "/openapi.json",
    "models": "/v1/models",
    "model_info": "/model_info",
    "server_info": "/server_info",
    "health": "/health",
}


class SelfDescription:
    """The three endpoints. The document is rendered once."""

    def __init__(self, client: EngineClient, args: ServerArgs) -> None:
        self._client = client
        self._document = msgspec.json.encode(openapi_document(has_api_key=args.api_key is not None))
        self._page = StaticPage(Path(__file__).parent / "docs.html")

    async def openapi(self, request: Request) -> Response:
        """The document."""
        return Response(self._document, media_type="application/json")

    async def docs(self, request: Request) -> Response:
        """A page that reads the document, and lets a person try each endpoint."""
        return self._page.response()

    async def about(self, request: Request) -> Response:
        """JSON, or the page for who would rather read HTML, as browsers do."""
        headers = {"vary": "accept"}
        if prefers_html(request.headers.get("accept", "")):
            return self._page.response(headers)
        name = self._client.model_info.served_model_name
        about = {"server": "lockstep", "version": srt.__version__, "model": name, "links": LINKS}
        return JSONResponse(about, headers=headers)


def prefers_html(accept: str) -> bool:
    """Whether HTML is named in an Accept header, and JSON is not named before it."""
    media_types = [part.partition(";")[0].strip().lower() for part in accept.split(",")]
    named = [name for name in media_types if name in ("text/html", "application/json")]
    return named[:1] == ["text/html"]
