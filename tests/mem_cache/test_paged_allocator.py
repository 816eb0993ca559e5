import pytest

from mem_cache.paged_allocator import PagedAllocator
from mem_cache.slot_allocator import AllocatorStats
from tests.mem_cache.request_world import as_ids


def extend(allocator: PagedAllocator, num_held: int, last_slot: int, num_new: int) -> list[int]:
    slots = allocator.extend(num_held, last_slot, num_new)
    assert slots is not None
    return list(map(int, slots))


def test_capacity_is_whole_pages() -> None:
    assert PagedAllocator(15, 4).stats() == AllocatorStats(num_free=12, capacity=12)


def test_a_new_sequence_starts_on_a_page_of_its_own_and_never_on_padding_page_0() -> None:
    allocator = PagedAllocator(16, 4)
    assert extend(allocator, 0, 0, 2) == [4, 5]
    assert extend(allocator, 0, 0, 5) == [8, 9, 10, 11, 12]
    assert allocator.stats().num_free == 4


def test_a_sequence_fills_its_last_page_first() -> None:
    allocator = PagedAllocator(16, 4)
    assert extend(allocator, 0, 0, 2) == [4, 5]
    assert extend(allocator, 2, 5, 1) == [6]
    assert extend(allocator, 3, 6, 6) == [7, 8, 9, 10, 11, 12]


def test_a_full_last_page_is_followed_by_a_new_one() -> None:
    allocator = PagedAllocator(16, 4)
    assert extend(allocator, 0, 0, 4) == [4, 5, 6, 7]
    assert extend(allocator, 4, 0, 1) == [8]


@pytest.mark.parametrize(
    ("num_held", "num_new", "num_needed"),
    [(0, 1, 4), (1, 3, 0), (1, 4, 4), (4, 1, 4), (3, 10, 12), (5, 0, 0)],
)
def test_what_is_needed_is_what_is_taken(num_held: int, num_new: int, num_needed: int) -> None:
    allocator = PagedAllocator(64, 4)
    held = allocator.extend(0, 0, num_held)
    assert held is not None
    before = allocator.stats().num_free
    assert allocator.num_needed(num_held, num_new) == num_needed
    extend(allocator, num_held, int(held[-1]) if num_held else 0, num_new)
    assert before - allocator.stats().num_free == num_needed


def test_without_room_nothing_changes() -> None:
    allocator = PagedAllocator(8, 4)
    extend(allocator, 0, 0, 3)
    assert allocator.extend(3, 6, 6) is None
    assert allocator.stats().num_free == 4
    assert extend(allocator, 3, 6, 5) == [7, 8, 9, 10, 11]


def test_a_page_comes_back_once_for_any_of_its_slots() -> None:
    allocator = PagedAllocator(16, 4)
    extend(allocator, 0, 0, 16)
    allocator.free(as_ids([9, 4, 5, 8]))
    assert sorted(allocator.free_again().tolist()) == [4, 5, 6, 7, 8, 9, 10, 11]
    assert extend(allocator, 0, 0, 5) == [4, 5, 6, 7, 8]


def test_freeing_nothing_changes_nothing() -> None:
    allocator = PagedAllocator(8, 4)
    allocator.free(as_ids([]))
    assert allocator.stats().num_free == 8


def test_freeing_a_page_twice_is_noticed() -> None:
    allocator = PagedAllocator(16, 4)
    extend(allocator, 0, 0, 8)
    allocator.free(as_ids([4, 5]))
    with pytest.raises(AssertionError, match="given back, but free"):
        allocator.free(as_ids([6, 7]))
