"""The instants of a request's life, and the segments between them, without a gap.

    received → accepted → templated → tokenized → dispatched           the front
             → arrived → scheduled → first token → last token           the scheduler
             → detokenized                                              the detokenizer
             → written                                                  the front again

The clock starts when the first byte of the HTTP request is read, and is the machine's monotonic one, which all
processes share. Whoever has no HTTP in front starts when it asks.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Protocol

import msgspec

from srt.observability.request_trace import Attribute

# The segments in order, each named after what happens in it; and the share that each is counted under.
SEGMENTS = {
    "receive": "front end and transport",  # the HTTP request is read, checked and translated
    "template": "front end and transport",  # messages become text; a thread is waited for
    "tokenize": "front end and transport",
    "dispatch": "front end and transport",  # the last checks; its grammar, if that takes longer than the prompt
    "transport": "front end and transport",  # to the scheduler, which may be in the middle of a step
    "queue": "queue",
    "prefill": "prefill",  # to the first token
    "decode": "decode",  # from the first token to the last
    "detokenize": "HTTP and detokenise",  # the last token becomes text
    "write": "HTTP and detokenise",  # the text reaches its caller and leaves
}


class SchedulerTiming(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """When a request reached the scheduler, by the machine's monotonic clock, and how long it was where from then on.

    Together they last until its end, whatever that is: of a request that never ran, all is `queue_s`.
    """

    arrived: float
    queue_s: float
    prefill_s: float = 0.0  # from its first step to its first token
    decode_s: float = 0.0  # from its first token to its last


@dataclass(slots=True)
class RequestTiming:
    """Instants on a monotonic clock, in seconds; None for what has not happened. Each is noted once.

    Of a request with several answers, what lies behind the front is that of the answer which ends last.
    """

    clock: Callable[[], float] = time.monotonic
    received: float = 0.0  # 0: now
    accepted: float = field(init=False)
    templated: float | None = None
    tokenized: float | None = None
    dispatched: float | None = None
    first_token: float | None = None
    scheduler: SchedulerTiming | None = None
    detokenized: float | None = None
    finished: float | None = None
    written: float | None = None

    def __post_init__(self) -> None:
        self.accepted = self.clock()
        self.received = self.received or self.accepted

    def note_templated(self) -> None:
        """Messages have become text."""
        self.templated = self.clock()

    def note_tokenized(self) -> None:
        """Text has become tokens."""
        self.tokenized = self.clock()

    def note_dispatched(self) -> None:
        """Tokenised, and on its way to the scheduler."""
        self.dispatched = self.clock()

    def note_first_token(self) -> None:
        """The first token of any choice is here."""
        self.first_token = self.clock()

    def note_finished(self) -> None:
        """The last choice has ended."""
        self.finished = self.clock()

    def note_written(self) -> None:
        """The last byte of the answer has left."""
        self.written = self.clock()

    @property
    def time_to_first_token_s(self) -> float | None:
        """From arrival to the first token."""
        return None if self.first_token is None else self.first_token - self.received

    @property
    def duration_s(self) -> float:
        """From arrival to the end, or to now."""
        return (self.clock() if self.finished is None else self.finished) - self.received

    def segments(self) -> dict[str, float]:
        """Seconds of every segment, which add up to the time from `received` to `written`; as far as it has come."""
        return dict(zip(SEGMENTS, _differences([self.received, *self._instants()]), strict=False))

    def _instants(self) -> Sequence[float | None]:
        told = self.scheduler
        behind: Sequence[float | None] = [None] * 4
        if told is not None:
            scheduled = told.arrived + told.queue_s
            first_token = scheduled + told.prefill_s
            behind = [told.arrived, scheduled, first_token, first_token + told.decode_s]
        front = [self.accepted, self.templated, self.tokenized, self.dispatched]
        return [*front, *behind, self.detokenized, self.written or self.finished]


def _differences(instants: Sequence[float | None]) -> list[float]:
    """Between neighbours, up to the first that is missing. Never negative."""
    spans: list[float] = []
    last = instants[0]
    for instant in instants[1:]:
        if last is None or instant is None:
            break
        spans.append(max(instant - last, 0.0))
        last = max(instant, last)
    return spans


class DescribedWork(Protocol):
    """What a visit asked the engine for, told when the visit is over."""

    def describe(self, timing: RequestTiming | None) -> Iterator[tuple[str, Attribute]]:
        """Attributes of a trace."""
        ...


@dataclass(slots=True)
class Visit:
    """One HTTP request, since the first byte that was read of it. `timing` is of what it asked the engine, if any.

    `work` is remembered only where traces are wanted.
    """

    received: float
    timing: RequestTiming | None = None
    work: DescribedWork | None = None


_visit: ContextVar[Visit | None] = ContextVar("visit", default=None)


def begin_visit(received: float) -> Visit:
    """What the current task asks from here on is on behalf of this HTTP request."""
    visit = Visit(received)
    _visit.set(visit)
    return visit


def current_visit() -> Visit | None:
    """On whose behalf the current task works, if on any."""
    return _visit.get()


def begin_timing(clock: Callable[[], float]) -> RequestTiming:
    """The clock of a request to the engine; it has been running since the HTTP request came, if there is one."""
    visit = _visit.get()
    if (
        visit is None or visit.timing is not None
    ):  # the second thing that is asked on behalf of the same visit
        return RequestTiming(clock)
    visit.timing = RequestTiming(clock, visit.received)
    return visit.timing
