"""`SlotHistory`: what happened last to which slots. Says how an account came to be wrong; nothing decides by it."""

from collections import deque
from collections.abc import Sequence

import numpy as np

from mem_cache.slot_allocator import Slots

# Bounds of what is remembered; arrays are kept as they come, so noting an event copies nothing.
MOST_EVENTS = 4096
MOST_SLOTS = 2**18


class SlotHistory:
    """The last events, oldest first; each names slots and whom they are about."""

    def __init__(self, page_size: int) -> None:
        self._page_size = page_size
        self._events: deque[tuple[int, str, Sequence[int], Slots]] = deque()
        self._num_events = 0  # so far
        self._num_slots = 0  # of the events that are kept

    def note(self, event: str, owners: Sequence[int], slots: Slots) -> None:
        """Something happened to `slots`, which nobody changes any more.

        `owners`: the one whom it is about, nobody, or one for each of as many pages.
        """
        self._num_events += 1
        if len(slots) == 0:
            return
        self._events.append((self._num_events, event, owners, slots))
        self._num_slots += len(slots)
        while len(self._events) > MOST_EVENTS or (self._num_slots > MOST_SLOTS and len(self._events) > 1):
            self._num_slots -= len(self._events.popleft()[3])

    def of(self, slot: int) -> str:
        """What is known of a slot's page, for the log. Looks at every event."""
        page = slot // self._page_size
        found: list[str] = []
        for number, event, owners, slots in self._events:
            places = np.flatnonzero(slots // self._page_size == page)
            if len(places):
                found.append(f"#{number} {event}{self._by(owners, int(places[0]))}")
        return f"slot {slot}: {', '.join(found) or 'nothing is remembered'} (now #{self._num_events})"

    def _by(self, owners: Sequence[int], place: int) -> str:
        if not owners:
            return ""
        return f" by request {owners[0] if len(owners) == 1 else owners[place // self._page_size]}"
