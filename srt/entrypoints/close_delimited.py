"""`until_close`: what a client of HTTP/1.0 gets, to whom chunks mean nothing. Its body ends with the connection."""

from collections.abc import Awaitable
from typing import Any

from starlette.types import Message, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle


def until_close(app: Any, cycle: RequestResponseCycle) -> Any:
    """The same app, whose answers of unknown length are not chunked. uvicorn closes behind them anyway."""

    async def run(scope: Scope, receive: Receive, send: Send) -> None:
        is_unbounded = False

        def send_plain(message: Message) -> Awaitable[None]:
            nonlocal is_unbounded
            if message["type"] == "http.response.start":
                is_unbounded = all(name != b"content-length" for name, _ in message["headers"])
                if is_unbounded:
                    cycle.chunked_encoding = False  # decided, so that uvicorn does not
            elif is_unbounded:
                cycle.expected_content_length = len(
                    message.get("body", b"")
                )  # of this piece: exactly what comes
            return send(message)

        await app(scope, receive, send_plain)

    return run
