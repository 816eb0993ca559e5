import random

import pytest

from mem_cache.eviction_policy import EVICTION_POLICIES, EvictionOrder
from mem_cache.prefix_cache import PrefixNode
from mem_cache.radix_tree import RadixTree, TreeNode
from tests.mem_cache.test_radix_cache import World, letters


def use(world: World, text: str, *, times: int = 1, priority: int = 0) -> PrefixNode:
    """So many requests with this prompt come, compute what is missing, and leave."""
    for _ in range(times):
        match = world.match(text)
        if match.num_tokens < len(text):
            world.keep(text)
            match = world.match(text)
        world.cache.count_use(match.node, num_tokens=len(text), num_counted=0, priority=priority)
        world.cache.check()
    return match.node


def test_least_recently_used_looks_at_the_last_use_only() -> None:
    world = World(eviction_policy="lru")
    use(world, "a", times=5)
    use(world, "b", priority=9)
    use(world, "c")
    world.match("a")
    assert evicted_one_by_one(world) == "bca"


def test_least_often_used_counts_requests_then_looks_at_the_last_use() -> None:
    world = World(eviction_policy="lfu")
    use(world, "a", times=3)
    use(world, "b", times=1)
    use(world, "c", times=2)
    use(world, "d", times=1)
    assert evicted_one_by_one(world) == "bdca"


def test_looking_for_a_prefix_is_no_use() -> None:
    """A waiting request asks for its prefix again and again."""
    world = World(eviction_policy="lfu")
    use(world, "a")
    use(world, "b", times=2)
    for _ in range(9):
        world.match("a")
    assert evicted_one_by_one(world) == "ab"


def test_segmented_keeps_what_two_requests_used_beyond_any_flood_of_new_ones() -> None:
    world = World(eviction_policy="slru")
    use(world, "a", times=2)
    use(world, "b", times=7)
    for text in "uvwxyz":
        use(world, text)
    # Within a segment the number of uses does not matter.
    world.match("a")
    assert evicted_one_by_one(world) == "uvwxyzba"


def test_the_least_urgent_goes_first_and_a_prefix_has_its_most_urgent_users_priority() -> None:
    world = World(eviction_policy="priority")
    use(world, "a", priority=5)
    use(world, "b", priority=-5)
    use(world, "c")
    use(world, "d", priority=-7)
    use(world, "d", priority=7)
    use(world, "d", priority=-7)
    assert evicted_one_by_one(world) == "bcad"


def test_a_longer_prefix_is_given_up_before_its_beginning_whatever_its_priority() -> None:
    world = World(eviction_policy="priority")
    use(world, "ab", priority=1)
    use(world, "abcd", priority=9)
    use(world, "x", priority=5)
    assert evicted_one_by_one(world) == "xdcba"


def test_parts_of_a_prefix_have_their_own_uses() -> None:
    world = World(eviction_policy="lfu")
    use(world, "system one")
    use(world, "system two")
    use(world, "other", times=2)
    # The ends, one use each, go first; then the shared part and the other have two each.
    assert evicted_one_by_one(world) == "eno" + "owt" + " metsys" + "rehto"


def test_a_request_counts_once_however_often_it_reports() -> None:
    world = World(eviction_policy="lfu")
    use(world, "ab")
    longer = use(world, "abcd")
    world.cache.count_use(longer, num_tokens=4, num_counted=4, priority=0)
    uses = {chr(node.tokens[0]): node.num_uses for node in world.cache._tree.nodes()}
    assert uses == {"a": 2, "c": 1}


@pytest.mark.parametrize("policy", EVICTION_POLICIES)
def test_the_order_is_that_of_sorting_the_free_leaves_each_time(policy: str) -> None:
    """The slow way: of all leaves that nobody holds, the one with the smallest key."""
    rng = random.Random(policy)
    world = World(eviction_policy=policy)
    held: list[PrefixNode] = []
    for _ in range(600):
        text = "".join(rng.choice("ab") for _ in range(rng.randint(1, 7)))
        action = rng.randrange(5)
        if action <= 1:
            held.append(use(world, text, priority=rng.randint(-2, 2)))
            world.cache.lock(held[-1])
        elif action == 2 and held:
            world.cache.unlock(held.pop(rng.randrange(len(held))))
        elif action == 3:
            world.match(text)
        else:
            expected = slow_choice(world, policy)
            expected_slots = [] if expected is None else expected.slots[-1:].tolist()
            assert world.evict(1) == expected_slots


def slow_choice(world: World, policy: str) -> TreeNode | None:
    key = EVICTION_POLICIES[policy]
    leaves = [node for node in world.cache._tree.nodes() if node.lock_count == 0 and not node.children]
    return min(leaves, key=lambda node: (key(node), node.number), default=None)


def evicted_one_by_one(world: World) -> str:
    """The letters, in the order in which their slots go."""
    letter_of = {
        slot: chr(token)
        for node in world.cache._tree.nodes()
        for token, slot in zip(node.tokens.tolist(), node.slots.tolist(), strict=True)
    }
    gone = ""
    while slots := world.evict(1):
        gone += letter_of[slots[0]]
    return gone


def test_a_node_that_is_used_all_the_time_has_one_entry() -> None:
    tree = RadixTree(1)
    order = EvictionOrder(EVICTION_POLICIES["lru"])
    busy, idle = (tree.add_leaf(tree.root, letters(text), letters(text), ()) for text in "ab")
    order.offer(busy)
    order.offer(idle)
    for now in range(1, 1000):
        busy.last_use = now
        order.offer(busy)
    assert order.first() is idle
    order.check()
    assert [order.take_first(), order.take_first()] == [idle, busy]


def test_check_sees_a_key_that_shrank() -> None:
    tree = RadixTree(1)
    order = EvictionOrder(EVICTION_POLICIES["lru"])
    leaf = tree.add_leaf(tree.root, letters("a"), letters("a"), ())
    leaf.last_use = 5
    order.offer(leaf)
    leaf.last_use = 4
    with pytest.raises(AssertionError, match="smaller key"):
        order.check()
