"""A limit to waiting that is fair when this process had no core for a while."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

# What has come while this process had no core lies unread when the time is over: timers go first.
GRACE_S = 0.05


@asynccontextmanager
async def patience(limit_s: float) -> AsyncIterator[None]:
    """`asyncio.timeout`, but when the time is over, what has come already is read before anybody gives up."""
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(None) as timeout:
        end = loop.call_later(limit_s, lambda: timeout.reschedule(loop.time() + GRACE_S))
        try:
            yield
        finally:
            end.cancel()
