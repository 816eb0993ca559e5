"""`Histogram`: how often something took how long, in whole numbers that somebody else may hold.

The cells may be a list, sent on as they are, or a piece of memory that other processes read: see `Cells`.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

MICROSECONDS = 1e6

TIME_TO_FIRST_TOKEN_BOUNDS = (
    *(0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 2.0, 4.0, 6.0, 8.0, 10.0, 20.0, 40.0, 60.0, 80.0, 100.0, 200.0, 400.0),
)
END_TO_END_BOUNDS = (*TIME_TO_FIRST_TOKEN_BOUNDS, 600.0, 1200.0, 1800.0, 2400.0)
INTER_TOKEN_BOUNDS = (
    *(0.002, 0.004, 0.006, 0.008, 0.01, 0.015, 0.02, 0.025, 0.03, 0.035, 0.04, 0.06, 0.08),
    *(0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 2.0, 4.0, 6.0, 8.0),
)
# From what a hop between two processes takes to what a user waits for.
SPAN_BOUNDS = (
    *(
        0.0005,
        0.001,
        0.002,
        0.005,
        0.01,
        0.02,
        0.05,
        0.1,
        0.2,
        0.5,
        1.0,
        2.0,
        5.0,
        10.0,
        30.0,
        60.0,
        120.0,
        300.0,
    ),
)


class Cells(Protocol):
    """Whole numbers in a row: a list, or a memoryview of 64-bit ones."""

    def __getitem__(self, index: int, /) -> int:
        """One of them."""
        ...

    def __setitem__(self, index: int, value: int, /) -> None:
        """Change one of them."""
        ...

    def __len__(self) -> int:
        """How many."""
        ...


@dataclass(frozen=True, slots=True)
class Distribution:
    """What a histogram holds: how many values up to each bound, and above the last; and their sum, in seconds."""

    bounds: Sequence[float]
    counts: Sequence[int]
    sum_s: float

    def __add__(self, other: "Distribution") -> "Distribution":
        counts = [one + another for one, another in zip(self.counts, other.counts, strict=True)]
        return Distribution(self.bounds, counts, self.sum_s + other.sum_s)


class Histogram:
    """Counts seconds by upper `bounds`, in ascending order, in `num_cells(bounds)` cells."""

    __slots__ = ("_bounds", "_cells", "_sum")

    def __init__(self, bounds: Sequence[float], cells: Cells | None = None) -> None:
        self._bounds = bounds
        self._cells = [0] * num_cells(bounds) if cells is None else cells
        self._sum = len(bounds) + 1
        assert len(self._cells) == num_cells(bounds), f"{len(self._cells)} cells for {len(bounds)} bounds"

    def observe(self, seconds: float, times: int = 1) -> None:
        """Something took so long, or several things did."""
        cells = self._cells
        cells[bisect_left(self._bounds, seconds)] += times
        cells[self._sum] += int(seconds * times * 1e6 + 0.5)

    @property
    def cells(self) -> list[int]:
        """A copy of what was counted, for `distribution` in another process."""
        return [self._cells[index] for index in range(len(self._cells))]

    def read(self) -> Distribution:
        """What it holds now."""
        return distribution(self._bounds, self.cells)


def num_cells(bounds: Sequence[float]) -> int:
    """One for each bound, one for what is above the last, and the sum in microseconds."""
    return len(bounds) + 2


def distribution(bounds: Sequence[float], cells: Sequence[int]) -> Distribution:
    """What a histogram with these cells holds. No cells: nothing."""
    counts = cells or [0] * num_cells(bounds)
    return Distribution(bounds, counts[:-1], counts[-1] / MICROSECONDS)
