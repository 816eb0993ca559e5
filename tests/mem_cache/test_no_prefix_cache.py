from mem_cache.no_prefix_cache import NoPrefixCache
from mem_cache.prefix_cache import PrefixCacheStats
from tests.mem_cache.request_world import as_ids


def test_nothing_is_shared_and_every_slot_stays_the_callers() -> None:
    cache = NoPrefixCache(page_size=1)
    result = cache.insert(as_ids([5, 6, 7]), as_ids([1, 2, 3]), 0)
    cache.lock(result.match.node)
    assert result.match.num_tokens == 0
    assert result.redundant.tolist() == []
    assert cache.match(as_ids([5, 6, 7])).num_tokens == 0
    assert cache.evict(3).tolist() == []
    cache.unlock(result.match.node)
    assert cache.reset().tolist() == []
    assert cache.held_slots().tolist() == []
    assert cache.stats() == PrefixCacheStats(0, 0, 0)
