"""GET /playground: a page to talk to the model from, and to see what the server does meanwhile.

It holds no secret, so it is served without the API key; what it asks for carries the key that its reader types in.
"""

from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

from srt.entrypoints.static_page import StaticPage


class Playground:
    """The endpoint. The page beside this file is all there is to it."""

    def __init__(self) -> None:
        self._page = StaticPage(Path(__file__).with_suffix(".html"))

    async def page(self, request: Request) -> Response:
        """The page."""
        return self._page.response()
