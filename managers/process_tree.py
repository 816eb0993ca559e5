"""`ProcessTree`: the child processes of one server, started, supervised and ended.

A child that ends untold is the end of the server, unless it belongs to one of several replicas of the model: then it
is the end of that replica. Who is only started on demand may come and go.
"""

import asyncio
import logging
import signal
import time
from collections.abc import Callable, Sequence
from multiprocessing.context import SpawnProcess
from typing import Any

from managers.ipc import AsyncReceiver, IpcAddresses
from managers.messages.lifecycle import Drained, Failed, LauncherInput, Ready, Wanted
from managers.process import Actor, Facts, start_actor
from managers.pulses import Pulse, PulseBoard
from srt.errors import StartupError
from srt.util.patience import patience

logger = logging.getLogger(__name__)

# How long a child that was told to stop may take before it is killed.
STOP_GRACE_S = 10.0
# How long a killed one may take to be gone: longer only when the kernel itself hangs, in a driver say.
KILL_GRACE_S = 10.0
# Between two lines that say whom the start still waits for.
PROGRESS_INTERVAL_S = 10.0
# How long the last words of a dead child may take to get here: they are already in the socket.
LAST_WORDS_S = 0.3


class ProcessTree:
    """The children of one server, from start to end. Used inside a running event loop."""

    def __init__(self, addresses: IpcAddresses, log_level: str, log_format: str = "text") -> None:
        self._addresses = addresses
        self._logging = log_level, log_format
        self._processes: list[SpawnProcess] = []
        self._loop = asyncio.get_running_loop()
        self._started = time.monotonic()
        self._facts: dict[str, Facts] = {}
        self._all_ready = asyncio.Event()
        self._ended: dict[SpawnProcess, asyncio.Event] = {}
        self._is_stopping = False
        self._replica_of: dict[str, int] = {}
        self._lost: dict[int, str] = {}
        self._last_words: dict[str, str] = {}
        self._drained: dict[str, asyncio.Event] = {}
        self._offered: dict[str, Actor] = {}
        self._on_demand: dict[str, SpawnProcess] = {}  # those of the offered that run
        self.pulses = PulseBoard()
        self._on_replica_lost: Callable[[int, str], None] = lambda dp_rank, why: None
        self._reports = AsyncReceiver[LauncherInput](addresses.launcher_input, LauncherInput)
        self._listening = asyncio.create_task(self._listen(), name="reports of children")
        self.death: asyncio.Future[str] = self._loop.create_future()
        """Set once, with one sentence, when the server cannot go on: a child has failed, or ended untold.

        Where there are several replicas of the model, it can as long as one of them is whole.
        """

    def start(self, actors: Sequence[Actor]) -> None:
        """Start a child for each, beside those that run already."""
        self._all_ready.clear()
        for actor in actors:
            self.pulses.add(actor.name, Pulse.shared(self._addresses, actor.name))
        for actor in actors:
            self._drained[actor.name] = asyncio.Event()
            process = start_actor(actor, self._addresses, *self._logging)
            self._processes.append(process)
            if actor.dp_rank is not None:
                self._replica_of[actor.name] = actor.dp_rank
            self._ended[process] = asyncio.Event()
            self._loop.add_reader(process.sentinel, self._on_end, process)

    def offer(self, actor: Actor) -> None:
        """A child that is started whenever somebody wants it, and whose end is nobody else's."""
        self._offered[actor.name] = actor
        self.pulses.add(actor.name, Pulse.shared(self._addresses, actor.name))

    async def wait_ready(self) -> dict[str, Facts]:
        """What each child told when it was ready, by name. Raises StartupError when one fails or dies."""
        all_ready = asyncio.create_task(self._all_ready.wait())
        waits: set[asyncio.Future[Any]] = {all_ready, self.death}
        try:
            while not self._all_ready.is_set():
                done, _ = await asyncio.wait(
                    waits, timeout=PROGRESS_INTERVAL_S, return_when=asyncio.FIRST_COMPLETED
                )
                if self.death.done():
                    raise StartupError(self.death.result())
                if not done:
                    missing = ", ".join(name for name in self._names if name not in self._facts)
                    logger.info("still waiting for %s (%.0f s)", missing, time.monotonic() - self._started)
        finally:
            all_ready.cancel()
        return self._facts

    async def wait_drained(self, names: Sequence[str]) -> None:
        """Until each of these children has said that nothing is open there any more."""
        for name in names:
            await self._drained[name].wait()

    def watch_replicas(self, on_lost: Callable[[int, str], None]) -> None:
        """Call `on_lost` with the rank of each replica that is lost, or was before, and why."""
        self._on_replica_lost = on_lost
        for dp_rank, why in self._lost.items():
            on_lost(dp_rank, why)

    def fail(self, why: str) -> None:
        """Note that the server cannot go on. The first reason counts."""
        if not self.death.done() and not self._is_stopping:
            self.death.set_result(why)

    def pid_of(self, name: str) -> int | None:
        """The process of this child; None when it does not run."""
        found = [process.pid for process in self._running if process.name == name and process.is_alive()]
        return found[0] if found else None

    def give_up(self, name: str, why: str) -> None:
        """Kill a child that is of no use any more: as if it had died, for that reason."""
        if name not in self._on_demand:
            self._lose(name, why)
        for process in self._running:
            if process.name == name:
                process.kill()

    @property
    def is_stopping(self) -> bool:
        """Whether children were told to end."""
        return self._is_stopping

    async def stop(self, grace_s: float = STOP_GRACE_S) -> None:
        """Wait up to `grace_s` for children that were told to end: all of them."""
        await self.wait_ended(self._names, grace_s)

    async def wait_ended(self, names: Sequence[str], grace_s: float) -> None:
        """Wait up to `grace_s` for these children, which were told to end. From now on no end is a failure."""
        self._is_stopping = True
        for process in self._on_demand.values():
            process.kill()
        told = [process for process in self._processes if process.name in names]
        try:
            async with patience(grace_s):
                for process in told:
                    await self._ended[process].wait()
        except TimeoutError:
            alive = ", ".join(process.name for process in told if process.is_alive())
            logger.warning("%s did not stop within %.0f s and will be killed", alive, grace_s)

    async def close(self) -> None:
        """End every child that still runs, now, and forget them all."""
        self._is_stopping = True
        self._processes += self._on_demand.values()
        for process in self._processes:
            self._loop.remove_reader(process.sentinel)
            process.kill()
        for process in self._processes:
            process.join(KILL_GRACE_S)
            if process.is_alive():
                logger.error("%s, process %d, cannot be killed", process.name, process.pid or 0)
            else:
                process.close()
        self._processes.clear()
        self._listening.cancel()
        await asyncio.wait({self._listening})
        self._reports.close()

    @property
    def _running(self) -> list[SpawnProcess]:
        return [*self._processes, *self._on_demand.values()]

    @property
    def _names(self) -> list[str]:
        return [process.name for process in self._processes]

    async def _listen(self) -> None:
        while True:
            for report in await self._reports.receive():
                match report:
                    case Wanted(name=name):
                        self._start_on_demand(name)
                    case Ready() | Failed() if report.name in self._offered:
                        logger.log(*_how_it_started(report))
                    case Ready():
                        self._on_ready(report)
                    case Failed() if report.name in self._facts:
                        self._last_words[report.name] = f"{report.name} has failed: {report.message}"
                        # Perhaps only because another was killed, which is the better reason.
                        self._lose_soon(report.name)
                    case Failed():
                        self.fail(f"{report.name} cannot start: {report.message}")
                    case Drained():
                        self._drained[report.name].set()

    def _start_on_demand(self, name: str) -> None:
        if name in self._on_demand or name not in self._offered or self._is_stopping:
            return
        process = start_actor(self._offered[name], self._addresses, *self._logging)
        self._on_demand[name] = process
        self._loop.add_reader(process.sentinel, self._on_end_of_offered, process)

    def _on_end_of_offered(self, process: SpawnProcess) -> None:
        self._loop.remove_reader(process.sentinel)
        process.join(1.0)
        del self._on_demand[process.name]
        self.pulses[process.name].rest()
        if not self._is_stopping:
            logger.error(
                "%s has died (%s); it is started again when needed", process.name, _ending(process.exitcode)
            )

    def _on_ready(self, report: Ready) -> None:
        self._facts[report.name] = report.facts
        logger.info(
            "%s is ready (%d of %d, after %.1f s)",
            report.name,
            len(self._facts),
            len(self._processes),
            time.monotonic() - self._started,
        )
        if len(self._facts) == len(self._processes):
            self._all_ready.set()

    def _on_end(self, process: SpawnProcess) -> None:
        self._loop.remove_reader(process.sentinel)
        process.join(1.0)  # its descriptors are closed already: it is all but gone
        self._ended[process].set()
        self.pulses[process.name].rest()
        why = f"{process.name} has died ({_ending(process.exitcode)})"
        if (process.exitcode or 0) < 0:
            self._lose(process.name, why)
        else:
            # Its own words, which may have arrived or be just arriving, say more than ours.
            self._last_words.setdefault(process.name, why)
            self._lose_soon(process.name)

    def _lose_soon(self, name: str) -> None:
        self._loop.call_later(LAST_WORDS_S, lambda: self._lose(name, self._last_words[name]))

    def _lose(self, name: str, why: str) -> None:
        """A child is lost: the end of the server, or of its replica, of which nothing may be left."""
        dp_rank = self._replica_of.get(name)
        if dp_rank is None or not self._all_ready.is_set():
            self.fail(why)
            return
        if dp_rank in self._lost or self._is_stopping or self.death.done():
            return
        self._lost[dp_rank] = why
        for process in self._processes:
            if self._replica_of.get(process.name) == dp_rank:
                process.kill()
                self.pulses[process.name].rest()
        if len(self._lost) == len(set(self._replica_of.values())):
            self.fail(why)
        else:
            logger.error("%s; the other replicas go on", why)
            self._on_replica_lost(dp_rank, why)


def _how_it_started(report: Ready | Failed) -> tuple[int, str, str, str]:
    if isinstance(report, Ready):
        return logging.INFO, "%s is ready%s", report.name, ""
    return logging.ERROR, "%s has failed: %s", report.name, report.message


def _ending(exit_code: int | None) -> str:
    if exit_code is not None and exit_code < 0:
        return f"killed by {signal.Signals(-exit_code).name}"
    return f"exit code {exit_code}"
