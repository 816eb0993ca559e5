"""`FrontBoard`: figures of every front, in memory that all of them and the main process see.

A front writes its own row and nobody else does, so there are no locks; everybody reads. So any front can answer for all
of them, and the main process knows who has the fewest connections, without a message. What counts something for
operators belongs here too: a client that asks one front means all of them.
"""

import mmap
import os
from array import array
from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Any

from srt.observability.front_counts import BYTES_PER_CELL, FrontCounts


class Figure(IntEnum):
    """The columns. Those that only grow are counters."""

    CONNECTIONS_OPENED = 0
    CONNECTIONS_CLOSED = 1
    OPEN_ANSWERS = 2
    COALESCED_CHUNKS = 3


class FrontRow:
    """One front's figures, all 0 at first."""

    NUM_CELLS = len(Figure) + FrontCounts.NUM_CELLS

    def __init__(self, cells: "memoryview[int]") -> None:
        self._cells = cells
        self.counts = FrontCounts(cells[len(Figure) :])  # what is only for /metrics

    def __getitem__(self, figure: Figure) -> int:
        return int(self._cells[figure])

    def __setitem__(self, figure: Figure, value: int) -> None:
        self._cells[figure] = value

    def count(self, figure: Figure) -> None:
        """One more. Only for the front whose row this is."""
        self._cells[figure] += 1


class FrontBoard:
    """The rows of all fronts. `memory` has `FrontRow.NUM_CELLS` 64-bit numbers for each."""

    def __init__(self, memory: "memoryview | mmap.mmap", num_fronts: int) -> None:
        # An aligned 64-bit write is one write: no reader sees half of it.
        cells = memoryview(memory).cast("B").cast("q")
        width = FrontRow.NUM_CELLS
        self.rows: Sequence[FrontRow] = [
            FrontRow(cells[front * width : (front + 1) * width]) for front in range(num_fronts)
        ]

    @staticmethod
    def private() -> "FrontBoard":
        """For a front that is alone."""
        return FrontBoard(memoryview(array("q", [0] * FrontRow.NUM_CELLS)), 1)

    @staticmethod
    def shared(path: str, num_fronts: int) -> "FrontBoard":
        """The board in this file, which is made if it is not there yet."""
        num_bytes = num_fronts * FrontRow.NUM_CELLS * BYTES_PER_CELL
        descriptor = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            os.ftruncate(descriptor, num_bytes)
            return FrontBoard(mmap.mmap(descriptor, num_bytes), num_fronts)
        finally:
            os.close(descriptor)

    def states(self) -> Sequence[Mapping[str, Any]]:
        """One entry a front."""
        return [
            {
                "tokenizer_worker": index,
                "num_connections": row[Figure.CONNECTIONS_OPENED] - row[Figure.CONNECTIONS_CLOSED],
                "num_open_answers": row[Figure.OPEN_ANSWERS],
                "num_coalesced_chunks": row[Figure.COALESCED_CHUNKS],
            }
            for index, row in enumerate(self.rows)
        ]
