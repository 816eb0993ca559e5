"""Send an admin request to the scheduler and wait for its reply, for a bounded time.

Every request has an id of its own, so a late reply to a caller who gave up is never taken for the next one's.
"""

import asyncio
import itertools
from collections.abc import Callable, Mapping
from typing import Any

from managers.messages.control import (
    ControlReply,
    ControlRequest,
    FlushCache,
    FlushCacheReply,
    GetState,
    GetStateReply,
    Shutdown,
)
from srt.errors import ServerNotReady

REPLY_TIMEOUT_S = 10.0
# Between two tries to flush a cache that is still in use.
RETRY_INTERVAL_S = 0.05


class ControlClient:
    """Admin requests to one scheduler. `send` puts a message on its socket; `on_reply` takes what comes back."""

    def __init__(
        self, send: Callable[[ControlRequest], None], *, reply_timeout_s: float = REPLY_TIMEOUT_S
    ) -> None:
        self._send = send
        self._reply_timeout_s = reply_timeout_s
        self._control_ids = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[ControlReply]] = {}

    async def flush_cache(self, *, timeout_s: float) -> str | None:
        """Forget cached prefixes, trying for `timeout_s`. None, or why it was not done."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        while True:
            reply = await self._ask(FlushCache(control_id=next(self._control_ids)))
            assert isinstance(reply, FlushCacheReply), reply
            if reply.done:
                return None
            if loop.time() >= deadline:
                return reply.reason
            await asyncio.sleep(RETRY_INTERVAL_S)

    async def get_state(self) -> Mapping[str, Any]:
        """The scheduler's facts and figures."""
        reply = await self._ask(GetState(control_id=next(self._control_ids)))
        assert isinstance(reply, GetStateReply), reply
        return reply.state

    def shut_down(self) -> None:
        """Ask every process behind the socket to end. Nothing comes back."""
        self._send(Shutdown())

    def on_reply(self, reply: ControlReply) -> None:
        """Hand a reply to whoever waits for it, if anybody still does."""
        future = self._waiting.get(reply.control_id)
        if future is not None and not future.done():
            future.set_result(reply)

    def fail_all(self, error: Exception) -> None:
        """Nobody will answer any more."""
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(error)

    async def _ask(self, request: FlushCache | GetState) -> ControlReply:
        future = asyncio.get_running_loop().create_future()
        self._waiting[request.control_id] = future
        self._send(request)
        try:
            async with asyncio.timeout(self._reply_timeout_s):
                reply: ControlReply = await future
                return reply
        except TimeoutError:
            raise ServerNotReady(f"the scheduler did not answer within {self._reply_timeout_s:g} s") from None
        finally:
            del self._waiting[request.control_id]
