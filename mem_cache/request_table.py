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

    Rows are handed out lowest first, then the last one freed. What a row holds beyond the tokens that its owner
    wrote means nothing.
    """

    def __init__(self, num_rows: int, context_length: int) -> None:
        self.num_rows = num_rows
        self.context_length = context_length
        # Zeroed memory costs nothing until it is written, so a long context is not paid for in advance.
        self._table = np.zeros((num_rows, context_length), np.int32)
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

    def write_each(self, rows: Sequence[int], positions: Sequence[int], slots: Sequence[int]) -> None:
        """Put one token's slot in each of `rows`, which are different."""
        self._table[rows, positions] = slots

    def read(self, row: int, start: int, end: int) -> Slots:
        """A copy of the slots of the tokens `start` … `end` - 1 of a row."""
        return self._table[row, start:end].copy()

    def gather(self, rows: Sequence[int], lens: Sequence[int]) -> Slots:
        """(len(rows), max(lens)) slots of the first `lens[i]` tokens of each row; 0 beyond."""
        width = max(lens, default=0)
        gathered = np.zeros((len(rows), width), np.int32)
        for target, row, length in zip(gathered, rows, lens, strict=True):
            target[:length] = self._table[row, :length]
        return gathered

    def stats(self) -> RequestTableStats:
        """Sizes now."""
        return RequestTableStats(len(self._free_rows), self.num_rows)
