"""How late an event loop is: what holds it up holds up every stream of its process."""

import asyncio
import time
from collections.abc import Callable

from srt.observability.front_counts import Count, FrontCounts

# A stall is seen if the loop should have woken up in it: while there are streams, one of 20 ms always is.
BUSY_INTERVAL_S = 0.02
IDLE_INTERVAL_S = 0.25


async def watch_loop(counts: FrontCounts, is_busy: Callable[[], bool]) -> None:
    """Until cancelled, count how much later than asked for it wakes up, and the CPU time that its process has used."""
    while True:
        interval_s = BUSY_INTERVAL_S if is_busy() else IDLE_INTERVAL_S
        begun = time.monotonic()
        await asyncio.sleep(interval_s)
        counts.loop_lag.observe(max(time.monotonic() - begun - interval_s, 0.0))
        counts[Count.CPU_MILLISECONDS] = int(time.process_time() * 1000)
