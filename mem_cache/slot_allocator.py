"""`SlotAllocator`, the interface: which KV slots are free.

Slots are numbered 1 … capacity; slot 0 is where padding writes. With pages of several tokens, page p holds
the slots p·page_size … p·page_size + page_size − 1, page 0 is padding's, and a page is free or taken as a whole.
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

    def free_slots(self) -> Slots:
        """Every free slot, for the books."""
        ...
