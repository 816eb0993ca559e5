"""The main process's watch over the others: who gives no sign of life for too long is given up.

Its stacks go to the log first. That a process was only slow cannot be known; the limit is generous for that reason.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Protocol

import psutil

from managers.ipc import IpcAddresses
from managers.pulses import PulseBoard
from managers.stack_dump import stacks_of, state_of

logger = logging.getLogger(__name__)

# So often within the limit it looks; and it gives somebody up one look before the limit, rather than after.
LOOKS_PER_LIMIT = 8
LONGEST_INTERVAL_S = 5.0


class WatchedTree(Protocol):
    """Who is watched: managers.process_tree."""

    pulses: PulseBoard

    @property
    def is_stopping(self) -> bool:
        """Whether all were told to end, and whoever is silent may be."""
        ...

    def pid_of(self, name: str) -> int | None:
        """The process of this name; None: it is gone already."""
        ...

    def give_up(self, name: str, why: str) -> None:
        """Kill it, which is the end of what it belongs to."""
        ...

    def fail(self, why: str) -> None:
        """The server cannot go on."""
        ...


@asynccontextmanager
async def watched(tree: WatchedTree, addresses: IpcAddresses, limit_s: float) -> AsyncIterator[None]:
    """Watch while the context lasts."""

    def on_end(watching: asyncio.Task[None]) -> None:
        if not watching.cancelled() and watching.exception() is not None:
            tree.fail(f"the watchdog has failed: {watching.exception()!r}")

    watching = asyncio.create_task(watch(tree, addresses, limit_s), name="watchdog")
    watching.add_done_callback(on_end)
    try:
        yield
    finally:
        watching.cancel()
        await asyncio.wait({watching})


class OwnStandstill:
    """When this process last came back after it had stood still itself, and so could hear nobody."""

    def __init__(self, interval_s: float, now: float) -> None:
        self._longest_gap_s = 2 * interval_s
        self._last_look = now
        self.ended_at = 0.0

    def look(self, now: float) -> None:
        """To be called at each interval."""
        if now - self._last_look > self._longest_gap_s:
            self.ended_at = now
        self._last_look = now


async def watch(tree: WatchedTree, addresses: IpcAddresses, limit_s: float) -> None:
    """Until cancelled, or until the server stops."""
    interval_s = min(limit_s / LOOKS_PER_LIMIT, LONGEST_INTERVAL_S)
    standstill = OwnStandstill(interval_s, time.monotonic())
    while True:
        await asyncio.sleep(interval_s)
        standstill.look(time.monotonic())
        if tree.is_stopping:
            return
        silent = tree.pulses.silent(limit_s - interval_s, heard_since=standstill.ended_at)
        if silent:
            await _give_up(tree, addresses, silent)


async def _give_up(tree: WatchedTree, addresses: IpcAddresses, silent: Mapping[str, float]) -> None:
    states = {name: state_of(pid) for name in silent if (pid := tree.pid_of(name)) is not None}
    # A process that is stopped is why others, who wait for it, are silent.
    order = sorted(states, key=lambda name: (states[name] != psutil.STATUS_STOPPED, name))
    why = "no sign of life from " + ", ".join(
        f"{name} for {silent[name]:.0f} s (state: {states[name] or 'gone'})" for name in order
    )
    if order:
        logger.critical("%s", why)
    for name in order:
        pid = tree.pid_of(name)
        if pid is not None:
            logger.critical("where %s stands:\n%s", name, await stacks_of(addresses, name, pid))
    for name in silent:
        tree.pulses[name].rest()
        tree.give_up(name, why)
