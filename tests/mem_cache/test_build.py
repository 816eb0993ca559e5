import pytest

from mem_cache.build import build_kv_memory
from mem_cache.no_prefix_cache import NoPrefixCache
from mem_cache.radix_cache import RadixCache


@pytest.mark.parametrize(("page_size", "capacity"), [(1, 100), (16, 96)])
def test_the_parts_agree_on_pages_and_capacity(page_size: int, capacity: int) -> None:
    memory = build_kv_memory(
        capacity=100, page_size=page_size, use_radix_cache=True, num_rows=3, context_length=50
    )
    assert isinstance(memory.cache, RadixCache)
    assert memory.cache.page_size == memory.allocator.page_size == page_size
    assert memory.allocator.capacity == memory.allocator.stats().num_free == capacity
    assert (memory.table.num_rows, memory.table.context_length) == (3, 50)


def test_without_the_radix_cache_nothing_is_shared() -> None:
    memory = build_kv_memory(capacity=100, page_size=1, use_radix_cache=False, num_rows=3, context_length=50)
    assert isinstance(memory.cache, NoPrefixCache)
