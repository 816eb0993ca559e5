"""`ChunkedBody`: the body of a running response, written to without a task or a message for each piece.

An ASGI `send` is a coroutine that only a task can await. What arrives in the middle of a stream needs none: it is
framed and handed to the transport where it arrives. Beginning and end of a response are `send`'s.
"""

import weakref
from collections.abc import Mapping
from typing import Any

from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

_EXTENSION = "lockstep.chunked_body"


class ChunkedBody:
    """Of one request's response. In order with what `send` has been awaited for."""

    __slots__ = ("_cycle", "_transport")

    def __init__(self, cycle: RequestResponseCycle) -> None:
        self._cycle = weakref.ref(cycle)  # whose scope this is in: only the collector could end them
        self._transport = cycle.transport

    def is_ready(self) -> bool:
        """Whether `write` may be called: the response has begun, and its client keeps up with it."""
        cycle = self._cycle()
        return (
            cycle is not None
            and not (cycle.flow.write_paused or cycle.disconnected or cycle.response_complete)
            and bool(cycle.chunked_encoding)
        )

    def write(self, data: bytes) -> None:
        """Send more of the body; `data` is not empty."""
        self._transport.write(b"%x\r\n%b\r\n" % (len(data), data))


def offer_body(cycle: RequestResponseCycle) -> None:
    """Let the request's handler find it."""
    cycle.scope["extensions"] = {_EXTENSION: {"body": ChunkedBody(cycle)}}


def chunked_body(scope: Mapping[str, Any]) -> ChunkedBody | None:
    """The one of this request, if its server offers one."""
    offered: Mapping[str, ChunkedBody] = scope.get("extensions", {}).get(_EXTENSION, {})
    return offered.get("body")
