"""`BoundedHttpProtocol`: uvicorn's HTTP/1.1 parser with an end to everything a client may make it hold.

uvicorn bounds neither the head of a request nor what it reads of a body that was refused already; this does, and
words its own refusals like all others.
"""

import asyncio
from typing import Any

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol
from uvicorn.server import ServerState

from srt.entrypoints.error_response import error_body
from srt.errors import InvalidRequest

MAX_HEAD_BYTES = 64 * 1024
MAX_DISCARDED_BYTES = 256 * 1024 * 1024


class BoundedHttpProtocol(HttpToolsProtocol):
    """One connection. A head beyond MAX_HEAD_BYTES gets a 431 and the connection's end."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._is_in_head = True
        self._num_head_bytes = 0
        self._num_discarded_bytes = 0

    def data_received(self, data: bytes) -> None:
        """Feed the parser, then see whether an unfinished head has grown too long."""
        if self._is_in_head:
            self._num_head_bytes += len(data)
        super().data_received(data)
        # Looked at afterwards: one read may hold a whole head and much of a body behind it.
        if self._is_in_head and self._num_head_bytes > MAX_HEAD_BYTES and not self.transport.is_closing():
            self._refuse(431, f"the request's head is longer than {MAX_HEAD_BYTES} bytes")

    def on_headers_complete(self) -> None:
        """The body begins."""
        self._is_in_head = False
        self._num_head_bytes = 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Take a part of the body, or throw it away if the answer is out already.

        Reading on lets a client that is still sending see the answer (a 413) instead of a reset; but not for ever.
        """
        if self.cycle.response_complete:
            self._num_discarded_bytes += len(body)
            if self._num_discarded_bytes > MAX_DISCARDED_BYTES:
                self.transport.close()
        super().on_body(body)

    def on_message_complete(self) -> None:
        """The next request's head begins."""
        self._is_in_head = True
        self._num_discarded_bytes = 0
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """Not HTTP at all, an HTTP/2 preface for example."""
        self._refuse(400, msg)

    def _refuse(self, status: int, message: str) -> None:
        body = error_body(InvalidRequest(message))
        head = b"content-type: application/json\r\nconnection: close\r\ncontent-length: %d\r\n\r\n" % len(
            body
        )
        self.transport.write(STATUS_LINE[status] + head + body)
        self.transport.close()
