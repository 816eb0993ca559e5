"""`RadixCache`: PrefixCache over the radix tree. Adds locks, sizes and eviction.

Next on the request's path: mem_cache/slot_allocator.py
"""

from collections import Counter
from collections.abc import Iterable

import numpy as np

from mem_cache.eviction_policy import EVICTION_POLICIES, EvictionOrder
from mem_cache.page_math import round_down, round_up
from mem_cache.prefix_cache import (
    InsertResult,
    Namespace,
    PrefixCache,
    PrefixCacheStats,
    PrefixMatch,
    PrefixNode,
    PrefixTrace,
    Slots,
    TokenIds,
)
from mem_cache.radix_tree import RadixTree, TreeNode


class RadixCache(PrefixCache):
    """Prefixes shared by all requests of a namespace, in whole pages.

    A locked node's ancestors are locked too, so below a node that nobody holds there is always a leaf that
    nobody holds: `_order` has them all.
    """

    def __init__(self, page_size: int, eviction_policy: str = "lru") -> None:
        self.page_size = page_size
        self._tree = RadixTree(page_size)
        self._order = EvictionOrder(EVICTION_POLICIES[eviction_policy])
        self._num_uses = 0  # of anything here: the time by which uses are ordered
        self._num_evictable = 0
        self._num_protected = 0

    def match(self, token_ids: TokenIds, namespace: Namespace = ()) -> PrefixMatch:
        """The longest cached prefix of `token_ids`, in whole pages; marks it as just used."""
        path = self._path_to(np.asarray(token_ids, np.int32), namespace)
        self._mark_used(path)
        return self._as_match(path)

    def trace(self, token_ids: TokenIds, namespace: Namespace = ()) -> PrefixTrace:
        """Where `match` would lead; changes nothing."""
        walk = self._tree.walk(token_ids, namespace)
        return PrefixTrace(walk.num_matched, tuple([node.number for node in walk.nodes]))

    def insert(
        self, token_ids: TokenIds, slots: Slots, owned_from: int, namespace: Namespace = ()
    ) -> InsertResult:
        """Take over the slots of the tokens that are not cached yet, cut down to whole pages."""
        assert len(token_ids) == len(slots), f"{len(token_ids)} tokens in {len(slots)} slots"
        end = round_down(len(token_ids), self.page_size)
        tokens = np.asarray(token_ids[:end], np.int32)
        path = self._path_to(tokens, namespace)
        num_known = sum(map(len, path))
        assert num_known >= owned_from, f"only {num_known} of {owned_from} owned tokens are still cached"
        if num_known < end:
            parent = path[-1] if path else self._tree.root
            new_slots = np.asarray(slots[num_known:end], np.int32)
            path.append(self._tree.add_leaf(parent, tokens[num_known:], new_slots, namespace))
            self._order.offer(path[-1])
            self._num_evictable += end - num_known
        self._mark_used(path)
        return InsertResult(self._as_match(path), np.array(slots[owned_from:num_known], np.int32))

    def count_use(self, node: PrefixNode, *, num_tokens: int, num_counted: int, priority: int) -> None:
        """One more request uses the prefix; its first `num_counted` tokens have been counted before."""
        end = num_tokens
        for used in self._tree.path(_tree_node(node)):
            used.priority = max(used.priority, priority)
            if end > num_counted or used.num_uses == 0:
                used.num_uses += 1
            end -= len(used)

    def lock(self, node: PrefixNode) -> None:
        """Keep `node` and all above it from eviction, once more."""
        for held in self._tree.path(_tree_node(node)):
            if held.lock_count == 0:
                self._num_evictable -= len(held)
                self._num_protected += len(held)
            held.lock_count += 1

    def unlock(self, node: PrefixNode) -> None:
        """Undo one `lock`; what nobody else holds counts as just used."""
        leaf = _tree_node(node)
        self._num_uses += 1
        for held in self._tree.path(leaf):
            assert held.lock_count > 0, f"node {held.number} is unlocked more often than locked"
            held.lock_count -= 1
            if held.lock_count == 0:
                held.last_use = self._num_uses
                self._num_evictable += len(held)
                self._num_protected -= len(held)
        if leaf.is_free_leaf:
            self._order.offer(leaf)

    def evict(self, num_tokens: int) -> Slots:
        """Give up whole leaves, and of the last one only as many pages as still needed, from its end."""
        parts: list[Slots] = []
        num_missing = round_up(num_tokens, self.page_size)
        while num_missing > 0 and self._num_evictable > 0:
            leaf = self._order.first()
            if len(leaf) > num_missing:
                parts.append(self._tree.shorten(leaf, len(leaf) - num_missing))
            else:
                parts.append(self._remove(self._order.take_first()))
            num_missing -= len(parts[-1])
            self._num_evictable -= len(parts[-1])
        return _join(parts)

    def reset(self) -> Slots:
        """Forget everything; nothing may be locked."""
        assert self._num_protected == 0, f"{self._num_protected} cached tokens are still locked"
        slots = self.held_slots()
        self._order.clear()
        self._tree.clear()
        self._num_evictable = 0
        return slots

    def stats(self) -> PrefixCacheStats:
        """Sizes now."""
        return PrefixCacheStats(self._num_evictable, self._num_protected, self._tree.num_nodes)

    def held_slots(self) -> Slots:
        """Every slot the cache owns."""
        return _join([node.slots for node in self._tree.nodes()])

    def check(self, held: Iterable[PrefixNode] | None = None) -> None:
        """Raise AssertionError if the books do not balance."""
        self._tree.check()
        nodes = list(self._tree.nodes())
        protected, evictable = _count(nodes)
        assert self._num_protected == protected, f"{self._num_protected} protected, counted {protected}"
        assert self._num_evictable == evictable, f"{self._num_evictable} evictable, counted {evictable}"
        self._check_slots()
        self._check_order(nodes)
        if held is not None:
            self._check_locks(nodes, held)

    def mend(self, unsound: Slots) -> None:
        """Undo every lock, forget every prefix that lies on a slot of `unsound`, count anew."""
        for node in list(self._tree.nodes()):
            node.lock_count = 0
        # Children after their parents: those of a node that is gone have no way up to the root.
        for node in list(self._tree.nodes()):
            if np.isin(node.slots, unsound).any():
                self._tree.cut_off(node)
        nodes = list(self._tree.nodes())
        self._num_protected, self._num_evictable = _count(nodes)
        for node in nodes:
            if node.is_free_leaf:
                self._order.offer(node)

    def _check_slots(self) -> None:
        slots = self.held_slots()
        assert len(np.unique(slots)) == len(slots), "a slot is cached twice"
        assert not len(slots) or slots.min() >= self.page_size, "a padding slot is cached"
        pages = slots.reshape(-1, self.page_size)
        expected = pages[:, :1] // self.page_size * self.page_size + np.arange(self.page_size)
        assert np.array_equal(pages, expected), "a cached page's slots are not one page of slots"

    def _check_locks(self, nodes: list[TreeNode], held: Iterable[PrefixNode]) -> None:
        expected = Counter(node.number for end in held for node in self._tree.path(_tree_node(end)))
        for node in nodes:
            assert node.lock_count == expected[node.number], (
                f"node {node.number} is locked {node.lock_count} times, {expected[node.number]} hold it"
            )

    def _check_order(self, nodes: list[TreeNode]) -> None:
        self._order.check()
        missing = [node.number for node in nodes if node.is_free_leaf and not node.is_offered]
        assert not missing, f"nodes {missing} could be evicted, but are not in the order"

    def _path_to(self, tokens: TokenIds, namespace: Namespace) -> list[TreeNode]:
        """The nodes that hold the longest cached prefix, exactly: splits the last if need be."""
        walk = self._tree.walk(tokens, namespace)
        path = walk.nodes
        if path and walk.num_in_last < len(path[-1]):
            path[-1] = self._tree.split(path[-1], walk.num_in_last)
        return path

    def _mark_used(self, path: list[TreeNode]) -> None:
        self._num_uses += 1
        for node in path:
            node.last_use = self._num_uses

    def _remove(self, leaf: TreeNode) -> Slots:
        parent = leaf.parent
        slots = self._tree.remove(leaf)
        if parent is not None and parent.is_free_leaf:
            self._order.offer(parent)
        return slots

    def _as_match(self, path: list[TreeNode]) -> PrefixMatch:
        return PrefixMatch(_join([node.slots for node in path]), path[-1] if path else self._tree.root)


def _count(nodes: Iterable[TreeNode]) -> tuple[int, int]:
    """Tokens that somebody holds, and that nobody does."""
    sizes = [0, 0]
    for node in nodes:
        sizes[node.lock_count == 0] += len(node)
    return sizes[0], sizes[1]


def _tree_node(node: PrefixNode) -> TreeNode:
    assert isinstance(node, TreeNode), f"{node!r} is not a node of this cache"
    return node


def _join(parts: list[Slots]) -> Slots:
    return np.concatenate(parts) if parts else np.empty(0, np.int32)
