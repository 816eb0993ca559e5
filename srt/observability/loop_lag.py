"""How late an event loop is: what holds it up holds up every stream of its process."""

import asyncio
import time

from srt.observability.front_counts import Count, FrontCounts

INTERVAL_S = 0.25


async def watch_loop(counts: FrontCounts) -> None:
    """Until cancelled, count how much later than asked for it wakes up, and the CPU time that its process has used."""
    while True:
        begun = time.monotonic()
        await asyncio.sleep(INTERVAL_S)
        counts.loop_lag.observe(max(time.monotonic() - begun - INTERVAL_S, 0.0))
        counts[Count.CPU_MILLISECONDS] = int(time.process_time() * 1000)
