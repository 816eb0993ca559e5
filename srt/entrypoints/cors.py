"""`Cors`: which web pages of other origins a browser lets ask this server. None, unless the operator names them.

Credentials (cookies) are never allowed: an API key travels in a header that a page must know. A preflight of an origin
that is not named gets what any OPTIONS gets, a 405 without a word about origins, and the browser refuses.
"""

from collections.abc import Awaitable

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from srt.server_args.cors_origins import ANY_ORIGIN

METHODS = b"GET, POST, PUT, OPTIONS"
# What pages send in practice. A browser that sends more says so beforehand, and gets it back if it looks like names.
HEADERS = b"authorization, content-type, x-request-id"
EXPOSED = b"x-request-id, retry-after"
MAX_AGE_S = 600
_NAME_CHARACTERS = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_, ")
_MAX_HEADERS_LEN = 1024


class Cors:
    """Says so to browsers, on every answer, errors included. Outside the API key: a preflight carries none."""

    def __init__(self, app: ASGIApp, origins: tuple[str, ...]) -> None:
        self._app = app
        self._is_any = ANY_ORIGIN in origins
        self._origins = frozenset(origin.lower().encode() for origin in origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a preflight; pass on the rest."""
        headers = dict(scope["headers"])
        origin = headers.get(b"origin", b"")
        allowed = self._allowed(origin)
        if allowed and scope["method"] == "OPTIONS" and b"access-control-request-method" in headers:
            await _answer_preflight(send, allowed, headers.get(b"access-control-request-headers", b""))
            return
        extra = [] if self._is_any else [(b"vary", b"origin")]
        if allowed:
            extra += [*allowed, (b"access-control-expose-headers", EXPOSED)]

        # No coroutine of its own: a stream's every event passes here.
        def send_with_headers(message: Message) -> Awaitable[None]:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message["headers"], *extra]}
            return send(message)

        await self._app(scope, receive, send_with_headers)

    def _allowed(self, origin: bytes) -> list[tuple[bytes, bytes]]:
        """The header that lets this origin in; empty if nothing does."""
        if not origin:
            return []
        if self._is_any:
            return [(b"access-control-allow-origin", b"*")]
        return [(b"access-control-allow-origin", origin)] if origin.lower() in self._origins else []


async def _answer_preflight(send: Send, allowed: list[tuple[bytes, bytes]], asked: bytes) -> None:
    is_sane = 0 < len(asked) <= _MAX_HEADERS_LEN and _NAME_CHARACTERS.issuperset(asked)
    headers = [
        *allowed,
        (b"access-control-allow-methods", METHODS),
        (b"access-control-allow-headers", asked if is_sane else HEADERS),
        (b"access-control-max-age", b"%d" % MAX_AGE_S),
        (b"vary", b"origin, access-control-request-method, access-control-request-headers"),
    ]
    await send({"type": "http.response.start", "status": 204, "headers": headers})
    await send({"type": "http.response.body", "body": b""})
