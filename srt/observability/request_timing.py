"""The instants of a request's life in the front process, and the spans between them."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(slots=True)
class RequestTiming:
    """Instants on a monotonic clock, in seconds; None for what has not happened. Each is noted once."""

    clock: Callable[[], float] = time.monotonic
    received: float = field(init=False)
    dispatched: float | None = None
    first_token: float | None = None
    finished: float | None = None

    def __post_init__(self) -> None:
        self.received = self.clock()

    def note_dispatched(self) -> None:
        """Tokenised, and on its way to the scheduler."""
        self.dispatched = self.clock()

    def note_first_token(self) -> None:
        """The first token of any choice is here."""
        self.first_token = self.clock()

    def note_finished(self) -> None:
        """The last choice has ended."""
        self.finished = self.clock()

    @property
    def time_to_first_token_s(self) -> float | None:
        """From arrival to the first token."""
        return None if self.first_token is None else self.first_token - self.received

    @property
    def duration_s(self) -> float:
        """From arrival to the end, or to now."""
        return (self.clock() if self.finished is None else self.finished) - self.received
