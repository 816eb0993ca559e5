"""Signs of life: when each process of the server last went round its loop, in memory that all of them see.

A process writes its own moment and nobody else's; looking costs no message, so `/health` can tell of every process, and
the watchdog of one that is silent. A process that has not begun, or is not expected back, has no moment.
"""

import mmap
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from managers.ipc import IpcAddresses

_NUM_BYTES = 8
_PREFIX = "pulse-"
# How long a process may sleep in its loop: it must be heard of now and then also when it has nothing to do.
HEARTBEAT_S = 1.0


class Pulse:
    """One process's moment, on the clock that all processes of a machine share."""

    def __init__(self, memory: "memoryview | mmap.mmap") -> None:
        # An aligned 64-bit write is one write: no reader sees half of it.
        self._cell = memoryview(memory).cast("B").cast("q")

    @staticmethod
    def private() -> "Pulse":
        """Seen by nobody else."""
        return Pulse(memoryview(bytearray(_NUM_BYTES)))

    @staticmethod
    def shared(addresses: IpcAddresses, name: str) -> "Pulse":
        """That of the process of this name; made, without a moment, if it is not there yet."""
        path = Path(addresses.folder) / f"{_PREFIX}{name}"
        descriptor = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            os.ftruncate(descriptor, _NUM_BYTES)
            return Pulse(mmap.mmap(descriptor, _NUM_BYTES))
        finally:
            os.close(descriptor)

    def beat(self) -> None:
        """Alive, now. Cheap enough for every turn of a loop."""
        self._cell[0] = time.monotonic_ns()

    def rest(self) -> None:
        """Nothing is expected any more."""
        self._cell[0] = 0

    @property
    def last_beat(self) -> float | None:
        """On time.monotonic's clock; None while nothing is expected."""
        return self._cell[0] / 1e9 or None


class PulseBoard:
    """The moments of several processes, by name."""

    def __init__(
        self, pulses: Mapping[str, Pulse] | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._pulses = dict(pulses or {})
        self._clock = clock

    @staticmethod
    def of_all(addresses: IpcAddresses, *, but_not: Callable[[str], bool]) -> "PulseBoard":
        """Of every process that the launcher has started so far, but for some."""
        found = sorted(Path(addresses.folder).glob(f"{_PREFIX}*"))
        names = [path.name.removeprefix(_PREFIX) for path in found]
        return PulseBoard({name: Pulse.shared(addresses, name) for name in names if not but_not(name)})

    def __getitem__(self, name: str) -> Pulse:
        return self._pulses[name]

    def add(self, name: str, pulse: Pulse) -> None:
        """One more, or another for a name."""
        self._pulses[name] = pulse

    def silent(self, limit_s: float, *, heard_since: float = 0.0) -> dict[str, float]:
        """Who has given no sign of life for longer than that, and for how many seconds.

        What was before `heard_since` does not count: then nobody listened.
        """
        now = self._clock()
        found = {}
        for name, pulse in self._pulses.items():
            last_beat = pulse.last_beat
            if last_beat is not None and now - max(last_beat, heard_since) > limit_s:
                found[name] = now - last_beat
        return found
