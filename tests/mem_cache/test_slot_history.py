import numpy as np

from mem_cache.slot_history import MOST_EVENTS, MOST_SLOTS, SlotHistory
from tests.mem_cache.request_world import as_ids


def test_a_slots_events_are_told_in_order() -> None:
    history = SlotHistory(page_size=1)
    history.note("taken", (7,), as_ids([1, 2, 3]))
    history.note("taken", (8,), as_ids([4]))
    history.note("cached", (7,), as_ids([2]))
    history.note("evicted", (), as_ids([2, 4]))
    assert history.of(2) == "slot 2: #1 taken by request 7, #3 cached by request 7, #4 evicted (now #4)"
    assert history.of(9) == "slot 9: nothing is remembered (now #4)"


def test_of_several_owners_the_slots_own_is_told() -> None:
    history = SlotHistory(page_size=4)
    history.note("taken", (7, 8), as_ids([8, 9, 10, 11, 40, 41, 42, 43]))
    assert history.of(42) == "slot 42: #1 taken by request 8 (now #1)"
    assert history.of(9) == "slot 9: #1 taken by request 7 (now #1)"


def test_any_slot_of_a_page_stands_for_the_page() -> None:
    history = SlotHistory(page_size=4)
    history.note("given back", (7,), as_ids([5]))
    assert history.of(6) == "slot 6: #1 given back by request 7 (now #1)"


def test_what_is_remembered_is_bounded() -> None:
    history = SlotHistory(page_size=1)
    for number in range(MOST_EVENTS + 10):
        history.note("taken", (number,), as_ids([1]))
    assert len(history._events) == MOST_EVENTS
    for number in range(3):
        history.note("taken", (number,), np.arange(MOST_SLOTS // 2, dtype=np.int32))
    assert sum(len(slots) for *_, slots in history._events) <= MOST_SLOTS


def test_the_last_event_is_remembered_however_many_slots_it_has() -> None:
    history = SlotHistory(page_size=1)
    history.note("flushed", (), np.arange(2 * MOST_SLOTS, dtype=np.int32))
    assert history.of(5) == "slot 5: #1 flushed (now #1)"
