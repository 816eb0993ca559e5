"""Whom to give up first. A policy is a key of integers: the smallest goes first.

Keys never shrink: a node's last use, its uses and its priority only grow. `EvictionOrder` rests on that.
No key depends on addresses, hashes or clocks, and no two leaves have the same.
"""

from collections.abc import Callable
from heapq import heappop, heappush, heapreplace

from mem_cache.radix_tree import TreeNode

Key = tuple[int, ...]
EvictionPolicy = Callable[[TreeNode], Key]

# Requests that must have used a prefix before "slru" takes it for one that will be used again.
NUM_USES_TO_BE_KEPT = 2


def least_recently_used(node: TreeNode) -> Key:
    """By last use."""
    return (node.last_use,)


def least_often_used(node: TreeNode) -> Key:
    """By number of requests that used it, then by last use."""
    return (node.num_uses, node.last_use)


def segmented(node: TreeNode) -> Key:
    """What one request only has used, then the rest; each by last use. A flood of new prompts passes by."""
    return (int(node.num_uses >= NUM_USES_TO_BE_KEPT), node.last_use)


def least_urgent(node: TreeNode) -> Key:
    """By the highest priority of any request that used it, then by last use."""
    return (node.priority, node.last_use)


EVICTION_POLICIES: dict[str, EvictionPolicy] = {
    "lru": least_recently_used,
    "lfu": least_often_used,
    "slru": segmented,
    "priority": least_urgent,
}


class EvictionOrder:
    """The leaves that nobody holds, by a policy's key.

    A heap with at most one entry a node. An entry may be out of date: its node may have been used since (its key
    is larger now), or may be no free leaf any more. This is found out when the entry comes up, so using, locking
    and unlocking a node cost nothing here, and an entry is moved at most once for each of them.
    """

    def __init__(self, policy: EvictionPolicy) -> None:
        self._key = policy
        self._heap: list[tuple[Key, int, TreeNode]] = []

    def offer(self, node: TreeNode) -> None:
        """`node` has become a leaf that nobody holds. Offering it twice is no error."""
        if not node.is_offered:
            node.is_offered = True
            heappush(self._heap, (self._key(node), node.number, node))

    def first(self) -> TreeNode:
        """Who goes next; there must be one."""
        while True:
            key, _, node = self._heap[0]
            if not node.is_free_leaf:
                heappop(self._heap)
                node.is_offered = False
            elif key != (now := self._key(node)):
                heapreplace(self._heap, (now, node.number, node))
            else:
                return node

    def take_first(self) -> TreeNode:
        """Who goes next, and is in the order no more."""
        node = self.first()
        heappop(self._heap)
        node.is_offered = False
        return node

    def clear(self) -> None:
        """Everything is gone."""
        for _, _, node in self._heap:
            node.is_offered = False
        self._heap.clear()

    def check(self) -> None:
        """Raise AssertionError if an entry stands where its node could be overlooked."""
        numbers = [number for _, number, _ in self._heap]
        assert len(set(numbers)) == len(numbers), "a node is in the eviction order twice"
        for key, number, node in self._heap:
            assert node.is_offered, f"node {number} is in the eviction order, but does not know it"
            assert key <= self._key(node), f"node {number} has a smaller key than when it was offered"
