"""`FrontPlace`: which of the processes that serve HTTP one is, and whose an id is.

A front is such a process: the main process alone, or one of `--tokenizer-worker-num`. Each hands out numbers of its
own, so that requests of several never mix, and an answer finds its way back by its number alone.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FrontPlace:
    """Front `index` of `count`."""

    index: int
    count: int

    def new_ids(self) -> Iterator[int]:
        """Numbers above 0 that no other front hands out."""
        return itertools.count(self.count + self.index, self.count)


ALONE = FrontPlace(0, 1)


def front_of(number: int, num_fronts: int) -> int:
    """The front that has handed out this number."""
    return number % num_fronts
