"""`PagedAllocator`: SlotAllocator for pages of several tokens. A page belongs to one sequence, or is free."""

import numpy as np

from mem_cache.page_math import num_pages, round_down
from mem_cache.slot_allocator import AllocatorStats, FreeNumbers, SlotAllocator, Slots


class PagedAllocator(SlotAllocator):
    """Counts in pages; `capacity` is cut down to whole ones."""

    def __init__(self, capacity: int, page_size: int) -> None:
        self.page_size = page_size
        self.capacity = round_down(capacity, page_size)
        self._pages = FreeNumbers(capacity // page_size)
        self._offsets = np.arange(page_size, dtype=np.int32)

    def num_needed(self, num_held: int, num_new: int) -> int:
        """Slots of the pages that must be taken; none while the last page has room."""
        size = self.page_size
        return (num_pages(num_held + num_new, size) - num_pages(num_held, size)) * size

    def extend(self, num_held: int, last_slot: int, num_new: int) -> Slots | None:
        """`num_new` slots, first those left in the last page; None when there is no room."""
        num_filling = min(-num_held % self.page_size, num_new)
        pages = self._pages.take(num_pages(num_new - num_filling, self.page_size))
        if pages is None:
            return None
        filling = np.arange(last_slot + 1, last_slot + 1 + num_filling, dtype=np.int32)
        if len(pages) == 0:
            return filling
        return np.concatenate([filling, self._slots_of(pages)])[:num_new]

    def free(self, slots: Slots) -> None:
        """Take back every page that has a slot among `slots`, each named in one call only."""
        pages = slots // self.page_size
        # Slots come page by page nearly always: dropping repeats of the neighbour leaves little to sort.
        is_first = np.concatenate([[True], pages[1:] != pages[:-1]])[: len(pages)]
        self._pages.give_back(np.unique(pages[is_first]))

    def stats(self) -> AllocatorStats:
        """Sizes now."""
        return AllocatorStats(self._pages.num_free * self.page_size, self.capacity)

    @property
    def num_touched(self) -> int:
        """See SlotAllocator."""
        return self._pages.num_touched * self.page_size

    def free_again(self) -> Slots:
        """Every slot of every free page that has been handed out at some time."""
        return self._slots_of(self._pages.free_again())

    def _slots_of(self, pages: Slots) -> Slots:
        return (pages[:, None] * np.int32(self.page_size) + self._offsets).reshape(-1)
