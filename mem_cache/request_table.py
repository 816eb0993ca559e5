"""`RequestTable`: one row a running request, token position to KV slot. On the host, in numpy."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mem_cache.slot_allocator import Slots


@dataclass(frozen=True, slots=True)
class RequestTableStats:
    """Rows, not tokens."""

    num_free: int
    num_rows: int


class RequestTable:
    """`num_rows` rows of `context_length` slots.

    Rows are handed out lowest first, then the last one freed. Beyond the tokens that its owner wrote, a row holds 0.
    """

    def __init__(self, num_rows: int, context_length: int) -> None:
        self.num_rows = num_rows
        self.context_length = context_length
        # Zeroed memory costs nothing until it is written, so a long context is not paid for in advance.
        self._table = np.zeros((num_rows, context_length), np.int32)
        self._lens = np.zeros(num_rows, np.int64)  # tokens that were written to each row
        self._free_rows = list(range(num_rows - 1, -1, -1))
        self._is_taken = [False] * num_rows

    def allocate(self) -> int | None:
        """A row, or None when all are taken."""
        if not self._free_rows:
            return None
        row = self._free_rows.pop()
        self._is_taken[row] = True
        return row

    def free(self, row: int) -> None:
        """Take a row back."""
        assert self._is_taken[row], f"row {row} is freed, but is free"
        self._table[row, : self._lens[row]] = 0
        self._lens[row] = 0
        self._is_taken[row] = False
        self._free_rows.append(row)

    def taken_rows(self) -> list[int]:
        """Those that somebody has, in ascending order."""
        return [row for row, is_taken in enumerate(self._is_taken) if is_taken]

    def write(self, row: int, start: int, slots: Slots) -> None:
        """Put the slots of the tokens `start`, `start` + 1, … of a row."""
        end = start + len(slots)
        assert end <= self.context_length, f"row {row}: {end} tokens, at most {self.context_length} fit"
        self._table[row, start:end] = slots
        self._lens[row] = max(self._lens[row], end)

    def append_to_each(self, rows: Sequence[int], slots: Slots) -> None:
        """Put the slot of one more token in each of `rows`, which are different."""
        self._table[rows, self._lens[rows]] = slots
        self._lens[rows] += 1

    def read(self, row: int, start: int, end: int) -> Slots:
        """A copy of the slots of the tokens `start` … `end` - 1 of a row."""
        return self._table[row, start:end].copy()

    def gather(self, rows: Sequence[int]) -> Slots:
        """(len(rows), most tokens of one) slots of each row's tokens; 0 beyond."""
        index = np.array(rows, np.int64)
        return self._table[index, : self._lens[index].max(initial=0)]

    def stats(self) -> RequestTableStats:
        """Sizes now."""
        return RequestTableStats(len(self._free_rows), self.num_rows)
