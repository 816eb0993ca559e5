"""Where a forward pass runs: here and now, or in a thread of its own while the scheduler goes on.

A pass begins when the one before has ended, whoever asks: there is one model.
Off the request's path; joins it at managers/scheduler/scheduler.py
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol

from srt.forward_batch import ForwardBatch, Prediction, Runner


class ForwardPass(Protocol):
    """A pass that may still be running."""

    def result(self) -> Prediction:
        """What it says; waits for that, and raises what the pass raised."""
        ...


class ForwardStarter(Protocol):
    """Starts passes."""

    def start(self, batch: ForwardBatch) -> ForwardPass:
        """Start one."""
        ...


@dataclass(frozen=True, slots=True)
class Done:
    """ForwardPass that has ended."""

    prediction: Prediction

    def result(self) -> Prediction:
        """At once."""
        return self.prediction


class HereAndNow:
    """ForwardStarter of the serial loop: a pass has ended when it has started."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner

    def start(self, batch: ForwardBatch) -> ForwardPass:
        """Run it."""
        return Done(self._runner.forward(batch))


class InThread:
    """ForwardStarter of the overlapped loop: torch releases the interpreter while it computes."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="forward")

    def start(self, batch: ForwardBatch) -> ForwardPass:
        """Hand it over."""
        return self._thread.submit(self._runner.forward, batch)
