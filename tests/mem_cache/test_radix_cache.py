import numpy as np
import pytest

from mem_cache.prefix_cache import PrefixCacheStats, PrefixMatch
from mem_cache.radix_cache import RadixCache
from tests.mem_cache.request_world import as_ids


class World:
    """A cache and a counter that hands out new pages of slots."""

    def __init__(self, page_size: int = 1, eviction_policy: str = "lru") -> None:
        self.cache = RadixCache(page_size, eviction_policy)
        self.next_slot = page_size

    def keep(self, text: str, namespace: tuple[str, ...] = ()) -> list[int]:
        """Insert a finished prompt in slots of its own; returns these."""
        slots = np.arange(self.next_slot, self.next_slot + len(text), dtype=np.int32)
        self.next_slot += -(-len(text) // self.cache.page_size) * self.cache.page_size
        self.cache.insert(letters(text), slots, 0, namespace)
        self.cache.check()
        return list(map(int, slots))

    def match(self, text: str, namespace: tuple[str, ...] = ()) -> PrefixMatch:
        match = self.cache.match(letters(text), namespace)
        self.cache.check()
        return match

    def evict(self, num_tokens: int) -> list[int]:
        slots = self.cache.evict(num_tokens)
        self.cache.check()
        return list(map(int, slots))


def letters(text: str) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    return as_ids(map(ord, text))


@pytest.fixture
def world() -> World:
    return World()


def test_a_prompt_that_was_kept_is_matched_with_its_slots(world: World) -> None:
    slots = world.keep("hello world")
    assert world.match("hello world").slots.tolist() == slots
    assert world.match("hello there").slots.tolist() == slots[:6]
    assert world.match("goodbye").num_tokens == 0


def test_ids_of_any_integer_type_match(world: World) -> None:
    slots = world.keep("abc")
    assert world.cache.match(letters("abc").astype(np.int64)).slots.tolist() == slots


def test_what_the_cache_already_had_is_redundant(world: World) -> None:
    first = world.keep("abcd")
    result = world.cache.insert(letters("abcdef"), as_ids([91, 92, 93, 94, 95, 96]), 0)
    assert result.redundant.tolist() == [91, 92, 93, 94]
    assert result.match.slots.tolist() == [*first, 95, 96]
    world.cache.check()


def test_what_the_caller_had_from_the_cache_is_not_redundant(world: World) -> None:
    first = world.keep("ab")
    world.keep("abcd")
    result = world.cache.insert(letters("abcde"), as_ids([*first, 93, 94, 95]), 2)
    assert result.redundant.tolist() == [93, 94]
    assert result.match.slots[-1] == 95


def test_a_last_page_that_is_not_full_stays_the_callers() -> None:
    world = World(page_size=4)
    result = world.cache.insert(letters("abcdef"), as_ids([4, 5, 6, 7, 8, 9]), 0)
    assert result.match.slots.tolist() == [4, 5, 6, 7]
    assert result.redundant.tolist() == []
    assert world.cache.stats() == PrefixCacheStats(num_evictable=4, num_protected=0, num_nodes=1)


def test_less_than_a_page_is_not_kept() -> None:
    world = World(page_size=16)
    result = world.cache.insert(letters("abc"), as_ids([16, 17, 18]), 0)
    assert result.match.num_tokens == 0
    assert world.cache.stats().num_nodes == 0
    world.cache.lock(result.match.node)
    world.cache.unlock(result.match.node)
    world.cache.check()


def test_namespaces_share_nothing_even_when_their_names_run_together(world: World) -> None:
    first = world.keep("prompt", ("a", "bc"))
    second = world.keep("prompt", ("ab", "c"))
    assert world.match("prompt").num_tokens == 0
    assert world.match("prompt", ("abc",)).num_tokens == 0
    assert world.match("prompt", ("a", "bc")).slots.tolist() == first
    assert world.match("prompt", ("ab", "c")).slots.tolist() == second


def test_the_matched_node_itself_is_protected(world: World) -> None:
    slots = world.keep("long prefix")
    match = world.match("long prefix")
    world.cache.lock(match.node)
    world.keep("flood")
    assert world.evict(1000) == [12, 13, 14, 15, 16]
    assert world.match("long prefix").slots.tolist() == slots
    assert world.cache.stats() == PrefixCacheStats(num_evictable=0, num_protected=11, num_nodes=1)


def test_a_partial_match_locks_no_more_than_it_matched(world: World) -> None:
    world.keep("prefix and X")
    match = world.match("prefix and Y")
    world.cache.lock(match.node)
    assert world.cache.stats() == PrefixCacheStats(num_evictable=1, num_protected=11, num_nodes=2)
    world.cache.unlock(match.node)
    assert world.cache.stats().num_protected == 0
    assert len(world.cache.reset()) == 12


def test_a_lock_from_before_a_split_still_protects_the_whole_prefix(world: World) -> None:
    world.keep("abcdef")
    held = world.match("abcdef")
    world.cache.lock(held.node)
    other = world.match("abcX")
    world.cache.lock(other.node)
    assert world.evict(1000) == []
    world.cache.unlock(held.node)
    assert world.cache.stats() == PrefixCacheStats(num_evictable=3, num_protected=3, num_nodes=2)
    world.cache.unlock(other.node)
    assert world.cache.stats().num_protected == 0


def test_a_prefix_locked_twice_needs_two_unlocks(world: World) -> None:
    world.keep("abc")
    node = world.match("abc").node
    world.cache.lock(node)
    world.cache.lock(node)
    world.cache.unlock(node)
    assert world.evict(1) == []
    world.cache.unlock(node)
    assert world.evict(3) == [1, 2, 3]


def test_one_unlock_too_many_is_noticed(world: World) -> None:
    world.keep("abc")
    with pytest.raises(AssertionError, match="unlocked more often"):
        world.cache.unlock(world.match("abc").node)


def test_the_least_recently_used_prefix_goes_first(world: World) -> None:
    first, second, third = world.keep("first"), world.keep("second"), world.keep("third")
    world.match("first")
    assert world.evict(6) == second
    assert world.evict(5) == third
    assert world.evict(5) == first


def test_what_was_just_unlocked_counts_as_used(world: World) -> None:
    world.keep("held")
    node = world.match("held").node
    world.cache.lock(node)
    other = world.keep("other")
    world.cache.unlock(node)
    assert world.evict(5) == other


def test_ends_go_before_the_prefix_they_share(world: World) -> None:
    stem = world.keep("stem")
    one = world.keep("stem one")[4:]
    two = world.keep("stem two")[5:]  # "stem " is shared
    assert world.evict(3) == one[1:]
    assert world.evict(3) == two
    assert world.evict(5) == [one[0], *stem]


def test_no_more_of_a_long_prefix_goes_than_is_needed(world: World) -> None:
    slots = world.keep("x" * 100)
    assert world.evict(3) == slots[-3:]
    assert world.match("x" * 100).num_tokens == 97


def test_eviction_gives_whole_pages() -> None:
    world = World(page_size=4)
    slots = world.keep("abcdefghijkl")
    assert world.evict(5) == slots[4:]
    assert world.match("abcdefghijkl").num_tokens == 4


def test_asked_for_more_than_there_is_the_cache_gives_all(world: World) -> None:
    slots = world.keep("abc")
    assert world.evict(99) == slots
    assert world.evict(99) == []


def test_prompts_that_part_inside_a_page_make_no_empty_node_and_evict_well() -> None:
    world = World(page_size=16)
    for remainder in range(16):
        for pages in range(3):
            world.keep("s" * (16 * pages + remainder) + chr(ord("A") + remainder) * 20)
            world.match("s" * (16 * pages + remainder) + "?" * 20)
    num_evictable = world.cache.stats().num_evictable
    num_evicted = 0
    while slots := world.evict(16):
        num_evicted += len(slots)
    assert num_evicted == num_evictable
    assert world.cache.stats() == PrefixCacheStats(0, 0, 0)


def test_inserting_over_an_evicted_prefix_is_noticed(world: World) -> None:
    slots = world.keep("abc")
    world.evict(3)
    with pytest.raises(AssertionError, match="0 of 3 owned tokens"):
        world.cache.insert(letters("abcd"), as_ids([*slots, 9]), 3)


def test_a_locked_prefix_cannot_be_forgotten(world: World) -> None:
    world.keep("abc")
    world.cache.lock(world.match("ab").node)
    with pytest.raises(AssertionError, match="2 cached tokens are still locked"):
        world.cache.reset()


def test_one_who_matched_nothing_may_unlock_after_a_reset(world: World) -> None:
    slots = world.keep("abc")
    node = world.match("xyz").node
    world.cache.lock(node)
    assert world.cache.reset().tolist() == slots
    world.cache.unlock(node)
    assert world.match("abc").num_tokens == 0
    assert world.cache.stats() == PrefixCacheStats(0, 0, 0)


def test_check_sees_a_slot_that_is_cached_twice(world: World) -> None:
    world.cache.insert(letters("ab"), as_ids([1, 2]), 0)
    world.cache.insert(letters("xy"), as_ids([2, 3]), 0)
    with pytest.raises(AssertionError, match="cached twice"):
        world.cache.check()
