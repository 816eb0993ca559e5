"""`SlotAllocator`, the interface: which KV slots are free; and the allocator of one-token pages.

Slots are numbered 1 … capacity; slot 0 is where padding writes. With pages of several tokens, page p holds
the slots p·page_size … p·page_size + page_size − 1, page 0 is padding's, and a page is free or taken as a whole.
So the KV pool has capacity + page_size slots.

Next on the request's path: managers/scheduler/batch.py
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

Slots = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class AllocatorStats:
    """Slots, not pages. `capacity` is what could ever be handed out."""

    num_free: int
    capacity: int


class SlotAllocator(Protocol):
    """Hands out slots in an order that depends on nothing but the calls before."""

    page_size: int
    capacity: int

    def num_needed(self, num_held: int, num_new: int) -> int:
        """Slots (whole pages' worth) that growing a sequence from `num_held` by `num_new` takes from the free."""
        ...

    def extend(self, num_held: int, last_slot: int, num_new: int) -> Slots | None:
        """`num_new` slots that continue a sequence of `num_held` tokens whose last lies in `last_slot`.

        Fills the sequence's last page first. `last_slot` is ignored when `num_held` is a whole number of
        pages. None when there is no room; nothing has changed then.
        """
        ...

    def free(self, slots: Slots) -> None:
        """Take slots back. With pages, a page comes back when any one of its slots is named.

        The caller names slots of pages that it owns whole, each page in one call only.
        """
        ...

    def stats(self) -> AllocatorStats:
        """Sizes now."""
        ...

    @property
    def num_touched(self) -> int:
        """Slots 1 … so many (in whole pages) have been handed out at some time; all others are free."""
        ...

    def free_again(self) -> Slots:
        """Every free slot that has been handed out at some time, for the books."""
        ...


class FreeNumbers:
    """A stack of free numbers, 1 … count: the last given back is the next handed out.

    Starts so that the lowest go first. Knows what is free, so that giving back twice is noticed.
    """

    def __init__(self, count: int) -> None:
        self._stack = np.arange(count, 0, -1, dtype=np.int32)
        self._is_free = np.ones(count + 1, np.bool_)
        self._is_free[0] = False
        self.num_free = self._least_free = (
            count  # now, and ever: below that, the stack is as it was at the start
        )

    def take(self, count: int) -> Slots | None:
        """`count` numbers, or None when there are not as many; nothing has changed then."""
        if count > self.num_free:
            return None
        self.num_free -= count
        self._least_free = min(self._least_free, self.num_free)
        taken = self._stack[self.num_free : self.num_free + count][::-1].copy()
        self._is_free[taken] = False
        return taken

    def give_back(self, numbers: Slots) -> None:
        """Take back `numbers`, no number twice; the first of them will be the first to go again."""
        assert not self._is_free[numbers].any(), (
            f"given back, but free: {numbers[self._is_free[numbers]][:10]}"
        )
        assert not np.any(numbers == 0), "number 0 is never handed out"
        end = self.num_free + len(numbers)
        assert end <= len(self._stack), f"{end} of {len(self._stack)} free: something was given back twice"
        self._is_free[numbers] = True
        self._stack[self.num_free : end] = numbers[::-1]
        self.num_free = end

    @property
    def num_touched(self) -> int:
        """The numbers 1 … so many have been handed out at some time."""
        return len(self._stack) - self._least_free

    def free_again(self) -> Slots:
        """A copy of those of them that are free."""
        return self._stack[self._least_free : self.num_free].copy()


class TokenAllocator(SlotAllocator):
    """SlotAllocator with a page for every token."""

    def __init__(self, capacity: int) -> None:
        self.page_size = 1
        self.capacity = capacity
        self._slots = FreeNumbers(capacity)

    def num_needed(self, num_held: int, num_new: int) -> int:
        """Just the new ones."""
        return num_new

    def extend(self, num_held: int, last_slot: int, num_new: int) -> Slots | None:
        """Any `num_new` slots, or None when there is no room."""
        return self._slots.take(num_new)

    def free(self, slots: Slots) -> None:
        """Take slots back, no slot twice."""
        self._slots.give_back(slots)

    def stats(self) -> AllocatorStats:
        """Sizes now."""
        return AllocatorStats(self._slots.num_free, self.capacity)

    @property
    def num_touched(self) -> int:
        """See SlotAllocator."""
        return self._slots.num_touched

    def free_again(self) -> Slots:
        """See SlotAllocator."""
        return self._slots.free_again()
