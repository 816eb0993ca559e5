"""Take stock of the KV slots: free + evictable + protected + in flight = capacity, and no slot twice; mend it."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from mem_cache.build import KVMemory
from mem_cache.slot_allocator import Slots


@dataclass(frozen=True, slots=True)
class Stock:
    """What is where. `lost` are slots that nobody has; `doubled` are slots that two have."""

    num_free: int
    num_evictable: int
    num_protected: int
    num_in_flight: int
    capacity: int
    lost: Slots
    doubled: Slots

    @property
    def balances(self) -> bool:
        """Whether every slot is in exactly one place."""
        return len(self.lost) == 0 and len(self.doubled) == 0


def take_stock(memory: KVMemory, in_flight: Iterable[Slots] = ()) -> Stock:
    """Count every slot. `in_flight` are the slots that requests own themselves, a page named by any of its slots.

    Changes nothing. `lost` slots can be given back to the allocator as they are; `doubled` ones cannot be
    repaired without ending the requests that use them, or forgetting what is cached there. Costs O(slots that
    have ever been used): for idle time and tests.
    """
    page_size, capacity = memory.allocator.page_size, memory.allocator.capacity
    own = [_whole_pages(slots, page_size) for slots in in_flight]
    held = np.concatenate([memory.allocator.free_again(), memory.cache.held_slots(), *own])
    # Of a small model's slots, a hundred million may never have been used: those are free, and not even looked at.
    end = memory.allocator.num_touched + page_size
    owners = np.bincount(held, minlength=end)
    owners[:page_size] += 1  # padding's, and nobody else's
    owners[end:] += 1  # free
    cached = memory.cache.stats()
    return Stock(
        num_free=memory.allocator.stats().num_free,
        num_evictable=cached.num_evictable,
        num_protected=cached.num_protected,
        num_in_flight=sum(map(len, own)),
        capacity=capacity,
        lost=np.flatnonzero(owners == 0).astype(np.int32),
        doubled=np.flatnonzero(owners > 1).astype(np.int32),
    )


def mend(memory: KVMemory) -> None:
    """Put in order, as far as possible, the books of a memory that no request uses.

    Who holds a row or a lock is nobody: they are free. A cached prefix on a slot that something else has too may
    have been overwritten: it is forgotten. What nobody has then is free. The other prefixes stay.
    """
    memory.cache.mend(take_stock(memory).doubled)
    for row in memory.table.taken_rows():
        memory.table.free(row)
    memory.allocator.free(take_stock(memory).lost)


def _whole_pages(slots: Slots, page_size: int) -> Slots:
    pages = np.unique(slots // page_size)
    return (pages[:, None] * page_size + np.arange(page_size)).reshape(-1).astype(np.int32)
