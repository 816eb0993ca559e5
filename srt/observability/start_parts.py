"""`StartParts`: what the start of a process takes, part by part, for one line of the log."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import psutil


@dataclass(slots=True)
class StartParts:
    """Parts end one after another: see `end`. In text: each with its time and, of that, the processor's."""

    clock: Callable[[], float] = time.time
    cpu_clock: Callable[[], float] = time.process_time
    began: float = field(default_factory=lambda: psutil.Process().create_time())
    _ends: list[tuple[str, float, float]] = field(default_factory=list)

    def end(self, part: str) -> None:
        """What was done since the last part ended, or the process began, was this."""
        self._ends.append((part, self.clock(), self.cpu_clock()))

    def __str__(self) -> str:
        shown, last, last_cpu = [], self.began, 0.0
        for part, end, cpu in self._ends:
            shown.append(f"{part} {end - last:.2f} s ({cpu - last_cpu:.2f})")
            last, last_cpu = end, cpu
        return f"{', '.join(shown)}; in all {last - self.began:.2f} s ({last_cpu:.2f})"
