"""`FrontCounts`: everything that one process which serves HTTP counts, in a row of 64-bit numbers.

Whoever owns the memory decides who else sees it: with several such processes, each has a row in a board that all of
them map, so any can tell of all, and nothing has to be written to files or sent around.
"""

from array import array
from collections.abc import Sequence
from enum import IntEnum

from srt.observability.histogram import (
    END_TO_END_BOUNDS,
    INTER_TOKEN_BOUNDS,
    SPAN_BOUNDS,
    TIME_TO_FIRST_TOKEN_BOUNDS,
    Histogram,
    num_cells,
)
from srt.observability.request_timing import SEGMENTS, RequestTiming

BYTES_PER_CELL = 8


class Count(IntEnum):
    """What is only counted. Where there is a second one for streams, it is the next."""

    ANSWERS = 0
    STREAMED_ANSWERS = 1
    PROMPT_TOKENS = 2
    STREAMED_PROMPT_TOKENS = 3
    GENERATED_TOKENS = 4
    STREAMED_GENERATED_TOKENS = 5
    CACHED_TOKENS = 6
    ABORTED_ANSWERS = 7
    STRUCTURED_REQUESTS = 8
    GRAMMARS_ASKED = 9
    GRAMMARS_FOUND = 10  # compiled before
    GRAMMARS_REFUSED = 11
    GRAMMARS_WAITED_FOR = 12  # requests that wait right now: goes down, too
    CPU_MILLISECONDS = 13


# The HTTP requests of this many endpoints are counted apart, by this many statuses; the last of each is "other".
STATUSES = (
    *(200, 202, 400, 401, 403, 404, 405, 408, 411, 413, 415, 422, 429, 431),
    *(499, 500, 501, 502, 503, 504),
)
NUM_ENDPOINTS, NUM_STATUSES = 64, len(STATUSES) + 1


class HttpCounts:
    """HTTP requests by endpoint, their answers by status too. Endpoints are numbers, given out by who serves them."""

    NUM_CELLS = NUM_ENDPOINTS * (1 + NUM_STATUSES)

    def __init__(self, cells: "memoryview[int]") -> None:
        self._cells = cells

    def begin(self, endpoint: int) -> None:
        """A request has come."""
        self._cells[endpoint * (1 + NUM_STATUSES)] += 1

    def end(self, endpoint: int, status: int) -> None:
        """It has been answered, or given up: then its status is 499."""
        place = STATUSES.index(status) if status in STATUSES else len(STATUSES)
        self._cells[endpoint * (1 + NUM_STATUSES) + 1 + place] += 1

    def refuse(self, status: int) -> None:
        """What came was no request yet: its head was too long, too slow, or none. It counts as one of no endpoint."""
        self.begin(NUM_ENDPOINTS - 1)
        self.end(NUM_ENDPOINTS - 1, status)

    def read(self, endpoint: int) -> tuple[int, Sequence[int]]:
        """How many have come, and how many have been answered with each status."""
        start = endpoint * (1 + NUM_STATUSES)
        begun, *ended = self._cells[start : start + 1 + NUM_STATUSES].tolist()
        return begun, ended


class FrontCounts:
    """Counters and histograms over `cells`. Pairs are for whole answers and for streams, in this order."""

    NUM_CELLS = (
        len(Count)
        + 2 * num_cells(TIME_TO_FIRST_TOKEN_BOUNDS)
        + 2 * num_cells(END_TO_END_BOUNDS)
        + 3 * num_cells(INTER_TOKEN_BOUNDS)
        + (2 + len(SEGMENTS)) * num_cells(SPAN_BOUNDS)
        + HttpCounts.NUM_CELLS
    )

    def __init__(self, cells: "memoryview[int]") -> None:
        assert len(cells) == self.NUM_CELLS, f"{len(cells)} cells"
        self.cells = cells
        self._next = len(Count)
        self.time_to_first_token = (
            self._histogram(TIME_TO_FIRST_TOKEN_BOUNDS),
            self._histogram(TIME_TO_FIRST_TOKEN_BOUNDS),
        )
        self.end_to_end = self._histogram(END_TO_END_BOUNDS), self._histogram(END_TO_END_BOUNDS)
        self.per_output_token = self._histogram(INTER_TOKEN_BOUNDS), self._histogram(INTER_TOKEN_BOUNDS)
        self.inter_token = self._histogram(INTER_TOKEN_BOUNDS)
        self.grammar_compilation = self._histogram(SPAN_BOUNDS)
        self.loop_lag = self._histogram(SPAN_BOUNDS)
        self.segments = {name: self._histogram(SPAN_BOUNDS) for name in SEGMENTS}
        self.http = HttpCounts(cells[self._next :])

    @staticmethod
    def private() -> "FrontCounts":
        """In memory that nobody else sees."""
        return FrontCounts(memoryview(array("q", bytes(BYTES_PER_CELL * FrontCounts.NUM_CELLS))))

    def __getitem__(self, count: int) -> int:
        return self.cells[count]

    def __setitem__(self, count: int, value: int) -> None:
        self.cells[count] = value

    def add(self, count: int, amount: int = 1) -> None:
        """So many more of a Count, or fewer. Only for the process whose counts these are."""
        self.cells[count] += amount

    def note_segments(self, timing: RequestTiming) -> None:
        """A request was answered in full; where its time went."""
        segments = timing.segments()
        if len(segments) == len(SEGMENTS):
            for name, seconds in segments.items():
                self.segments[name].observe(seconds)

    def _histogram(self, bounds: Sequence[float]) -> Histogram:
        start, self._next = self._next, self._next + num_cells(bounds)
        return Histogram(bounds, self.cells[start : self._next])
