"""`BoundedHttpProtocol`: uvicorn's HTTP/1.1 parser with an end to everything a client may make it hold.

uvicorn bounds neither the head of a request nor what it reads of a body that was refused already; this does, and
words its own refusals like all others. It also reads the body of a request that offers to change to HTTP/2, as
Java's client does with its first one; uvicorn drops that body.
"""

import asyncio
import sys
import time
from collections.abc import Callable
from typing import Any

import httptools
from uvicorn._types import ASGI3Application
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from srt.entrypoints.chunked_body import Outbox, offer_body
from srt.entrypoints.close_delimited import until_close
from srt.entrypoints.error_response import error_body
from srt.entrypoints.middleware import note_status
from srt.entrypoints.read_watch import ReadWatch
from srt.errors import InvalidRequest
from srt.util.patience import GRACE_S

# Where a request's `scope["state"]` says when its first byte was read, by the monotonic clock.
FIRST_BYTE = "first_byte_at"

MAX_HEAD_BYTES = 64 * 1024
MAX_HEADERS = 256
MAX_DISCARDED_BYTES = 256 * 1024 * 1024
# A client that is still sending when the connection is closed is sent a reset, and may never see why.
LINGER_S = 1.0


class BoundedHttpProtocol(HttpToolsProtocol):
    """One connection. What is too long gets a 431, what is too slow a 408, and both the connection's end.

    A head may take `read_timeout_s` from its first byte to its last, and a body may be silent for as long: a client
    that sends a byte now and then holds nothing for ever.
    """

    read_timeout_s = 30.0
    on_refusal: Callable[[int], None] = staticmethod(lambda status: None)
    """Told of the status of whatever did not become a request."""
    outbox: Outbox
    """Of the server that the connection belongs to."""

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
        self._first_byte_at = 0.0
        self._num_discarded_bytes = 0
        self._newest_data = self._data_anew = b""
        self._is_upgrade_offered = False
        self._refusal: tuple[int, str] | None = None
        self._is_refused = False
        self._watch = ReadWatch(self.loop, self.read_timeout_s, self._on_late)
        self._running: RequestResponseCycle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first byte, as long as for one behind an answer."""
        super().connection_made(transport)
        self.timeout_keep_alive_task = self.loop.call_later(
            self.timeout_keep_alive, self.timeout_keep_alive_handler
        )

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing more, and leave no ring: a full collection is hours away, and connections come and go."""
        self._watch.close()
        super().connection_lost(exc)
        # uvicorn tells the newest request only, which may still wait for this one.
        if self._running is not None and not self._running.response_complete:
            self._running.disconnected = True
            self._running.message_event.set()

    def timeout_keep_alive_handler(self) -> None:
        """Close the connection, unless a request is in the socket already: it would get a reset for an answer."""
        close = super().timeout_keep_alive_handler
        self.timeout_keep_alive_task = self.loop.call_later(GRACE_S, close)

    def data_received(self, data: bytes) -> None:
        """Feed the parser, then see whether an unfinished head has grown too long."""
        if self._is_refused:
            return
        if self._is_in_head:
            if not self._num_head_bytes:
                self._first_byte_at = time.monotonic()
            self._num_head_bytes += len(data)
        while data:
            self._newest_data, self._data_anew = data, b""
            super().data_received(data)
            data = self._data_anew
        # Looked at afterwards: one read may hold a whole head and much of a body behind it.
        if self._is_refused or self.transport.is_closing():
            self._watch.stop()
            return
        if self._is_in_head and self._num_head_bytes > MAX_HEAD_BYTES:
            self._refuse(431, f"the request's head is longer than {MAX_HEAD_BYTES} bytes")
        else:
            self._watch_the_rest()

    def on_headers_complete(self) -> None:
        """The body begins."""
        if len(self.headers) > MAX_HEADERS:
            self._refusal = 431, f"the request has more than {MAX_HEADERS} headers"
            raise ValueError(
                self._refusal[1]
            )  # the only way to stop the parser: it ends in send_400_response
        # A CONNECT counts as an upgrade too. It has no body, and the router refuses it.
        self._is_upgrade_offered = self.parser.should_upgrade() and self.parser.get_method() != b"CONNECT"
        if self._is_upgrade_offered:
            return  # it begins anew: see `_unsupported_upgrade_warning`
        self._is_in_head = False
        self._num_head_bytes = 0
        self.scope["state"][FIRST_BYTE] = self._first_byte_at
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
        if self._is_upgrade_offered:
            return
        self._is_in_head = True
        self._first_byte_at = time.monotonic()  # it may have come together with this one
        self._num_discarded_bytes = 0
        super().on_message_complete()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        self._running = cycle
        if cycle.scope["http_version"] == "1.0":
            app = until_close(app, cycle)
        elif cycle.scope["method"] != "HEAD":
            offer_body(cycle, self.outbox)
        super()._start_asgi_task(cycle, app)

    def _watch_the_rest(self) -> None:
        if not self._is_in_head:
            self._watch.expect_more(anew=True)
        elif self._num_head_bytes:
            self._watch.expect_more(anew=False)
        else:
            self._watch.stop()

    def _on_late(self) -> None:
        is_answering = self.cycle is not None and not self.cycle.response_complete
        if self.flow.read_paused or (self._is_in_head and is_answering):
            # It is we who do not read; or an earlier answer must not be cut.
            self._watch.expect_more(anew=True)
        elif not self._is_in_head and not is_answering:
            self.transport.close()  # it has its answer, and only did not stop to send
        elif not self.transport.is_closing():
            part = "head" if self._is_in_head else "body"
            limit = f"{self.read_timeout_s:g} s"
            self._refuse(408, f"the rest of the request's {part} did not come within {limit}")

    def _unsupported_upgrade_warning(self) -> None:
        """uvicorn calls this when the parser has stopped behind a head that offers an upgrade; not only to warn.

        The parser takes what follows for another protocol. We decline, as every server may, by reading the same
        head without the offer.
        """
        if not self._is_upgrade_offered:
            return
        stop = sys.exception()
        assert isinstance(stop, httptools.HttpParserUpgrade), stop
        version = self.parser.get_http_version().encode()
        head = [b"%b %b HTTP/%b" % (self.parser.get_method(), self.url, version)]
        head += [b"%b: %b" % header for header in self.headers if header[0] != b"upgrade"]
        self.parser = httptools.HttpRequestParser(self)
        self._data_anew = b"\r\n".join(head) + b"\r\n\r\n" + self._newest_data[stop.args[0] :]

    def send_400_response(self, msg: str) -> None:
        """Not HTTP at all, an HTTP/2 preface for example; or what we had refused while it was parsed."""
        self._refuse(*(self._refusal or (400, msg)))

    def _refuse(self, status: int, message: str) -> None:
        is_answering = self.cycle is not None and not self.cycle.response_complete
        if self.pipeline or (is_answering and (self._is_in_head or self.cycle.response_started)):
            self.transport.close()  # words would land in an earlier request's answer
            return
        if is_answering:
            note_status(self.cycle.scope["state"], status)
        else:
            self.on_refusal(status)
        body = error_body(InvalidRequest(message))
        head = b"content-type: application/json\r\nconnection: close\r\ncontent-length: %d\r\n\r\n" % len(
            body
        )
        self._is_refused = True
        self._watch.stop()
        self.transport.write(STATUS_LINE[status] + head + body)
        self.transport.write_eof()
        self.loop.call_later(LINGER_S, self.loop.call_later, GRACE_S, self.transport.close)
