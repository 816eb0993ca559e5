import pytest

from mem_cache.slot_allocator import AllocatorStats, TokenAllocator
from tests.mem_cache.request_world import as_ids


def take(allocator: TokenAllocator, count: int) -> list[int]:
    slots = allocator.extend(0, 0, count)
    assert slots is not None
    return list(map(int, slots))


def test_the_lowest_slots_go_first_and_slot_0_never() -> None:
    allocator = TokenAllocator(5)
    assert take(allocator, 3) == [1, 2, 3]
    assert take(allocator, 2) == [4, 5]
    assert allocator.stats() == AllocatorStats(num_free=0, capacity=5)


def test_what_came_back_last_goes_out_first() -> None:
    allocator = TokenAllocator(5)
    take(allocator, 4)
    allocator.free(as_ids([1, 3]))
    assert take(allocator, 3) == [1, 3, 5]


def test_without_room_nothing_changes() -> None:
    allocator = TokenAllocator(5)
    take(allocator, 3)
    assert allocator.extend(3, 3, 3) is None
    assert allocator.stats().num_free == 2
    assert take(allocator, 2) == [4, 5]


def test_freeing_twice_is_noticed() -> None:
    allocator = TokenAllocator(5)
    take(allocator, 3)
    allocator.free(as_ids([2]))
    with pytest.raises(AssertionError, match="given back, but free"):
        allocator.free(as_ids([1, 2]))


def test_freeing_the_padding_slot_is_noticed() -> None:
    allocator = TokenAllocator(5)
    take(allocator, 3)
    with pytest.raises(AssertionError, match="never handed out"):
        allocator.free(as_ids([0]))


def test_a_token_needs_a_slot() -> None:
    assert TokenAllocator(5).num_needed(7, 3) == 3
