"""`ChunkedBody`: the body of a running response, written to without a task or a message for each piece.

An ASGI `send` is a coroutine that only a task can await. What arrives in the middle of a stream needs none: it is
framed and handed to the transport where it arrives. Beginning and end of a response are `send`'s.
"""

import asyncio
import logging
import weakref
from collections.abc import Mapping
from typing import Any

from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

logger = logging.getLogger(__name__)

_EXTENSION = "lockstep.chunked_body"


class Outbox:
    """What is written in one turn of an event loop leaves at the turn's end, in order. One for each server.

    A step's tokens for hundreds of streams become events one after the other, and then writes one after the other:
    taking turns, each pushes the other's code and data out of the processor's caches, which costs a tenth of both.
    """

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: list[tuple[asyncio.Transport, bytes]] = []

    def put(self, transport: asyncio.Transport, data: bytes) -> None:
        """Write it before anything that a task is woken for from now on."""
        if not self._waiting:
            asyncio.get_running_loop().call_soon(self._send)
        self._waiting.append((transport, data))

    def _send(self) -> None:
        waiting, self._waiting = self._waiting, []
        for transport, data in waiting:
            if transport.is_closing():
                continue
            try:
                transport.write(data)
            except Exception:
                # Its own connection's end, and not that of everybody whose events wait behind it.
                logger.exception("a connection cannot be written to")
                transport.abort()


class ChunkedBody:
    """Of one request's response. In order with what `send` has been awaited for."""

    __slots__ = ("_cycle", "_outbox", "_transport")

    def __init__(self, cycle: RequestResponseCycle, outbox: Outbox) -> None:
        self._outbox = outbox
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
        self._outbox.put(self._transport, b"%x\r\n%b\r\n" % (len(data), data))


def offer_body(cycle: RequestResponseCycle, outbox: Outbox) -> None:
    """Let the request's handler find it."""
    cycle.scope["extensions"] = {_EXTENSION: {"body": ChunkedBody(cycle, outbox)}}


def chunked_body(scope: Mapping[str, Any]) -> ChunkedBody | None:
    """The one of this request, if its server offers one."""
    offered: Mapping[str, ChunkedBody] = scope.get("extensions", {}).get(_EXTENSION, {})
    return offered.get("body")
