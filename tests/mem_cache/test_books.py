import pytest

from mem_cache.books import take_stock
from mem_cache.build import KVMemory, build_kv_memory
from tests.mem_cache.request_world import as_ids


@pytest.fixture
def memory() -> KVMemory:
    return build_kv_memory(capacity=16, page_size=4, use_radix_cache=True, num_rows=2, context_length=16)


def test_every_slot_is_counted_where_it_is(memory: KVMemory) -> None:
    slots = memory.allocator.extend(0, 0, 10)
    assert slots is not None
    result = memory.cache.insert(as_ids(range(10)), slots, 0)
    memory.cache.lock(memory.cache.match(as_ids(range(4))).node)
    stock = take_stock(memory, [slots[result.match.num_tokens :]])
    assert stock.balances
    assert (stock.num_free, stock.num_evictable, stock.num_protected, stock.num_in_flight) == (4, 4, 4, 4)
    assert stock.capacity == 16


def test_slots_that_nobody_has_are_found_and_can_be_given_back(memory: KVMemory) -> None:
    memory.allocator.extend(0, 0, 5)
    stock = take_stock(memory)
    assert stock.lost.tolist() == [4, 5, 6, 7, 8, 9, 10, 11]
    memory.allocator.free(stock.lost)
    assert take_stock(memory).balances


def test_slots_that_two_have_are_found(memory: KVMemory) -> None:
    slots = memory.allocator.extend(0, 0, 4)
    assert slots is not None
    memory.cache.insert(as_ids(range(4)), slots, 0)
    stock = take_stock(memory, [slots])
    assert stock.doubled.tolist() == [4, 5, 6, 7]
    assert not stock.balances


def test_only_slots_that_have_been_used_are_looked_at(memory: KVMemory) -> None:
    slots = memory.allocator.extend(0, 0, 8)
    assert slots is not None
    memory.allocator.free(slots)
    assert memory.allocator.extend(0, 0, 4) is not None
    assert memory.allocator.num_touched == 8
    assert memory.allocator.free_again().tolist() == [8, 9, 10, 11]
    assert take_stock(memory, [as_ids(range(4, 8))]).balances


def test_whoever_has_a_slot_that_was_never_handed_out_is_found(memory: KVMemory) -> None:
    assert take_stock(memory, [as_ids(range(8, 12))]).doubled.tolist() == [8, 9, 10, 11]
