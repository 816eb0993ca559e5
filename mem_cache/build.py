"""`build_kv_memory`: the books of one rank's KV memory, put together. The bytes are the model runner's."""

from dataclasses import dataclass

from mem_cache.no_prefix_cache import NoPrefixCache
from mem_cache.paged_allocator import PagedAllocator
from mem_cache.prefix_cache import PrefixCache
from mem_cache.radix_cache import RadixCache
from mem_cache.request_table import RequestTable
from mem_cache.slot_allocator import SlotAllocator, TokenAllocator


@dataclass(frozen=True, slots=True, kw_only=True)
class KVMemory:
    """Which slots are free, which prefixes are kept, which request uses what."""

    allocator: SlotAllocator
    cache: PrefixCache
    table: RequestTable


def build_kv_memory(
    *,
    capacity: int,
    page_size: int,
    use_radix_cache: bool,
    num_rows: int,
    context_length: int,
    eviction_policy: str = "lru",
) -> KVMemory:
    """Empty books for `capacity` tokens, `num_rows` requests at once of up to `context_length` tokens each.

    The KV pool that goes with them needs `sizing.num_pool_slots(allocator.capacity, page_size)` slots.
    """
    allocator = TokenAllocator(capacity) if page_size == 1 else PagedAllocator(capacity, page_size)
    cache = RadixCache(page_size, eviction_policy) if use_radix_cache else NoPrefixCache(page_size)
    return KVMemory(allocator=allocator, cache=cache, table=RequestTable(num_rows, context_length))
