"""`RadixCache`: PrefixCache over the radix tree. Adds locks, sizes and eviction.

Next on the request's path: mem_cache/slot_allocator.py
"""

import numpy as np

from mem_cache.eviction_policy import EvictionOrder, LeastRecentlyUsed
from mem_cache.page_math import round_down, round_up
from mem_cache.prefix_cache import (
    InsertResult,
    Namespace,
    PrefixCache,
    PrefixCacheStats,
    PrefixMatch,
    PrefixNode,
    Slots,
    TokenIds,
)
from mem_cache.radix_tree import RadixTree, TreeNode


class RadixCache(PrefixCache):
    """Prefixes shared by all requests of a namespace, in whole pages.

    `_order` holds exactly the unlocked nodes, each before its parent: whenever a node counts as used (matched,
    inserted or unlocked), so do its ancestors, after it. A locked node's ancestors are locked too. So the
    first in order is always a leaf, and eviction need not search for one.
    """

    def __init__(self, page_size: int) -> None:
        self.page_size = page_size
        self._tree = RadixTree(page_size)
        self._order: EvictionOrder[TreeNode] = LeastRecentlyUsed()
        self._num_evictable = 0
        self._num_protected = 0

    def match(self, token_ids: TokenIds, namespace: Namespace = ()) -> PrefixMatch:
        """The longest cached prefix of `token_ids`, in whole pages; marks it as just used."""
        path = self._path_to(np.asarray(token_ids, np.int32), namespace)
        self._mark_used(path)
        return self._as_match(path)

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
            self._num_evictable += end - num_known
        self._mark_used(path)
        return InsertResult(self._as_match(path), np.array(slots[owned_from:num_known], np.int32))

    def lock(self, node: PrefixNode) -> None:
        """Keep `node` and all above it from eviction, once more."""
        for held in self._tree.path(_tree_node(node)):
            if held.lock_count == 0:
                self._order.discard(held.number)
                self._num_evictable -= len(held)
                self._num_protected += len(held)
            held.lock_count += 1

    def unlock(self, node: PrefixNode) -> None:
        """Undo one `lock`; what nobody else holds counts as just used."""
        for held in self._tree.path(_tree_node(node)):
            assert held.lock_count > 0, f"node {held.number} is unlocked more often than locked"
            held.lock_count -= 1
            if held.lock_count == 0:
                self._order.used(held.number, held)
                self._num_evictable += len(held)
                self._num_protected -= len(held)

    def evict(self, num_tokens: int) -> Slots:
        """Give up whole leaves, and of the last one only as many pages as still needed, from its end."""
        parts: list[Slots] = []
        num_missing = round_up(num_tokens, self.page_size)
        while num_missing > 0 and len(self._order) > 0:
            leaf = self._order.first()
            if len(leaf) > num_missing:
                parts.append(self._tree.shorten(leaf, len(leaf) - num_missing))
            else:
                self._order.discard(leaf.number)
                parts.append(self._tree.remove(leaf))
            num_missing -= len(parts[-1])
            self._num_evictable -= len(parts[-1])
        return _join(parts)

    def reset(self) -> Slots:
        """Forget everything; nothing may be locked."""
        assert self._num_protected == 0, f"{self._num_protected} cached tokens are still locked"
        slots = self.held_slots()
        self._tree.clear()
        self._order = LeastRecentlyUsed()
        self._num_evictable = 0
        return slots

    def stats(self) -> PrefixCacheStats:
        """Sizes now."""
        return PrefixCacheStats(self._num_evictable, self._num_protected, self._tree.num_nodes)

    def held_slots(self) -> Slots:
        """Every slot the cache owns."""
        return _join([node.slots for node in self._tree.nodes()])

    def check(self) -> None:
        """Raise AssertionError if the books do not balance."""
        self._tree.check()
        nodes = list(self._tree.nodes())
        protected = sum(len(node) for node in nodes if node.lock_count > 0)
        evictable = sum(len(node) for node in nodes if node.lock_count == 0)
        assert self._num_protected == protected, f"{self._num_protected} protected, counted {protected}"
        assert self._num_evictable == evictable, f"{self._num_evictable} evictable, counted {evictable}"
        self._check_slots()
        self._check_order(nodes)

    def _check_slots(self) -> None:
        slots = self.held_slots()
        assert len(np.unique(slots)) == len(slots), "a slot is cached twice"
        assert not len(slots) or slots.min() >= self.page_size, "a padding slot is cached"
        pages = slots.reshape(-1, self.page_size)
        expected = pages[:, :1] // self.page_size * self.page_size + np.arange(self.page_size)
        assert np.array_equal(pages, expected), "a cached page's slots are not one page of slots"

    def _check_order(self, nodes: list[TreeNode]) -> None:
        places = {node.number: place for place, node in enumerate(self._order)}
        unlocked = [node for node in nodes if node.lock_count == 0]
        assert len(places) == len(unlocked), f"{len(places)} in eviction order, {len(unlocked)} unlocked"
        for node in unlocked:
            for child in node.children.values():
                assert places[child.number] < places[node.number], (
                    f"node {node.number} would go before its child"
                )

    def _path_to(self, tokens: TokenIds, namespace: Namespace) -> list[TreeNode]:
        """The nodes that hold the longest cached prefix, exactly: splits the last if need be."""
        walk = self._tree.walk(tokens, namespace)
        path = walk.nodes
        if path and walk.num_in_last < len(path[-1]):
            path[-1] = self._tree.split(path[-1], walk.num_in_last)
        return path

    def _mark_used(self, path: list[TreeNode]) -> None:
        for node in reversed(path):
            if node.lock_count == 0:
                self._order.used(node.number, node)

    def _as_match(self, path: list[TreeNode]) -> PrefixMatch:
        return PrefixMatch(_join([node.slots for node in path]), path[-1] if path else self._tree.root)


def _tree_node(node: PrefixNode) -> TreeNode:
    assert isinstance(node, TreeNode), f"{node!r} is not a node of this cache"
    return node


def _join(parts: list[Slots]) -> Slots:
    return np.concatenate(parts) if parts else np.empty(0, np.int32)
