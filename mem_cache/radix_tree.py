"""`RadixTree`, the tree alone: walk, split, add, shorten, remove. Knows tokens, not who owns or holds them.

Every edge is a whole number of pages, at least one. A node finds a child by the bytes of the child's first
page; below the root the namespace is part of that key, so two namespaces never share a node. The keys are
only looked up, never iterated in hash order: what the tree does is the same in every process.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mem_cache.page_math import round_down

Ints = npt.NDArray[np.int32]
ChildKey = tuple[tuple[str, ...], bytes]

# How far to compare before looking whether there was a difference; grows, as most edges match whole.
FIRST_STRIDE, STRIDE_GROWTH = 64, 8


NO_PRIORITY = -(2**63)


class TreeNode:
    """A run of tokens, their slots, and what may follow. `number` is unique in the tree's life.

    From `lock_count` on, what is kept here for the cache and its eviction policy.
    """

    __slots__ = (
        "children",
        "is_offered",
        "key",
        "last_use",
        "lock_count",
        "num_uses",
        "number",
        "parent",
        "priority",
        "slots",
        "tokens",
    )

    def __init__(
        self, number: int, parent: "TreeNode | None", key: ChildKey, tokens: Ints, slots: Ints
    ) -> None:
        self.number = number
        self.parent = parent
        self.key = key
        self.tokens = tokens
        self.slots = slots
        self.children: dict[ChildKey, TreeNode] = {}
        self.lock_count = 0
        self.last_use = 0  # counts uses of the whole cache
        self.num_uses = 0  # requests that computed or reused it
        self.priority = NO_PRIORITY  # the highest of these requests'
        self.is_offered = False  # whether it has an entry in the eviction order

    @property
    def is_free_leaf(self) -> bool:
        """Whether it is in the tree, ends it, and nobody holds it."""
        return self.lock_count == 0 and not self.children and self.parent is not None

    def __len__(self) -> int:
        return len(self.tokens)


@dataclass(frozen=True, slots=True)
class Walk:
    """How far a walk came. The last of `nodes` may have matched in part: only `num_in_last` of its tokens."""

    nodes: list[TreeNode]
    num_matched: int
    num_in_last: int


class RadixTree:
    """Token runs by their common prefixes, in pages of `page_size` tokens."""

    def __init__(self, page_size: int) -> None:
        self.page_size = page_size
        self.num_nodes = 0  # without the root
        self._last_number = 0
        nothing = np.empty(0, np.int32)
        self.root = TreeNode(0, None, ((), b""), nothing, nothing)

    def walk(self, tokens: Ints, namespace: tuple[str, ...]) -> Walk:
        """Follow `tokens` from the root as far as whole pages match. Changes nothing."""
        node, nodes, position, num_in_last = self.root, [], 0, 0
        end = round_down(len(tokens), self.page_size)
        while position < end and num_in_last == len(node):
            child = node.children.get(self._child_key(node, tokens[position:], namespace))
            if child is None:
                break
            common = num_common(child.tokens, tokens[position:end])
            num_in_last = round_down(common, self.page_size)
            position += num_in_last
            nodes.append(child)
            node = child
        return Walk(nodes, position, num_in_last)

    def split(self, node: TreeNode, num_tokens: int) -> TreeNode:
        """Cut `node` in two; returns the new upper part, of `num_tokens`.

        `node` stays the lower part: whoever holds it still holds the same prefix. Its locks and
        uses reach through the upper part too.
        """
        assert 0 < num_tokens < len(node), f"cannot cut {num_tokens} off a node of {len(node)}"
        parent = _parent(node)
        upper = self._new_node(
            parent, node.key, _compact(node.tokens[:num_tokens]), _compact(node.slots[:num_tokens])
        )
        upper.lock_count, upper.last_use = node.lock_count, node.last_use
        upper.num_uses, upper.priority = node.num_uses, node.priority
        node.parent = upper
        node.tokens = _compact(node.tokens[num_tokens:])
        node.slots = _compact(node.slots[num_tokens:])
        node.key = self._child_key(upper, node.tokens, ())
        upper.children[node.key] = node
        return upper

    def add_leaf(self, parent: TreeNode, tokens: Ints, slots: Ints, namespace: tuple[str, ...]) -> TreeNode:
        """Hang copies of `tokens` and `slots` below `parent`, which has no child that starts like this."""
        key = self._child_key(parent, tokens, namespace)
        assert key not in parent.children, "two children would start with the same page"
        return self._new_node(parent, key, tokens.copy(), slots.copy())

    def shorten(self, leaf: TreeNode, num_tokens: int) -> Ints:
        """Keep only the first `num_tokens` (not 0) of a leaf; returns the slots of the rest."""
        assert not leaf.children, "only a leaf can be cut short"
        assert 0 < num_tokens < len(leaf), f"cannot keep {num_tokens} of a leaf of {len(leaf)}"
        rest = leaf.slots[num_tokens:].copy()
        leaf.tokens = _compact(leaf.tokens[:num_tokens])
        leaf.slots = _compact(leaf.slots[:num_tokens])
        return rest

    def remove(self, leaf: TreeNode) -> Ints:
        """Take a leaf out; returns its slots."""
        assert not leaf.children, "only a leaf can be taken out"
        del _parent(leaf).children[leaf.key]
        leaf.parent = None
        self.num_nodes -= 1
        return leaf.slots

    def cut_off(self, node: TreeNode) -> None:
        """Take out a node with all that continues it. One that is out already is no error."""
        if node.parent is None:
            return
        del node.parent.children[node.key]
        pending = [node]
        while pending:
            gone = pending.pop()
            gone.parent = None
            self.num_nodes -= 1
            pending.extend(gone.children.values())
            gone.children.clear()

    def clear(self) -> None:
        """Take everything out. The root stays the root: who holds it holds the empty prefix still."""
        for node in list(self.nodes()):
            node.parent = None
        self.root.children.clear()
        self.num_nodes = 0

    def nodes(self) -> Iterator[TreeNode]:
        """Every node but the root, parents before children, in the order they were added."""
        pending = list(reversed(self.root.children.values()))
        while pending:
            node = pending.pop()
            yield node
            pending.extend(reversed(node.children.values()))

    def path(self, node: TreeNode) -> Iterator[TreeNode]:
        """`node` and its ancestors below the root, upwards. A node that was removed is an error."""
        while node is not self.root:
            yield node
            node = _parent(node)

    def check(self) -> None:
        """Raise AssertionError if the tree is not well formed."""
        num_counted = sum(1 for _ in self.nodes())
        assert self.num_nodes == num_counted, f"{self.num_nodes} nodes, counted {num_counted}"
        for node in self.nodes():
            parent = _parent(node)
            assert len(node) > 0, f"node {node.number} is empty"
            assert len(node) == len(node.slots), f"node {node.number}: tokens and slots differ in number"
            assert len(node) % self.page_size == 0, f"node {node.number} ends inside a page"
            assert parent.children.get(node.key) is node, f"node {node.number} is not where its parent looks"
            assert node.key == self._child_key(parent, node.tokens, node.key[0]), (
                f"node {node.number}: wrong key"
            )
            num_child_locks = sum(child.lock_count for child in node.children.values())
            assert node.lock_count >= num_child_locks, f"node {node.number} has fewer locks than its children"

    def _child_key(self, parent: TreeNode, tokens: Ints, namespace: tuple[str, ...]) -> ChildKey:
        return (namespace if parent is self.root else (), tokens[: self.page_size].tobytes())

    def _new_node(self, parent: TreeNode, key: ChildKey, tokens: Ints, slots: Ints) -> TreeNode:
        self.num_nodes += 1
        self._last_number += 1
        node = TreeNode(self._last_number, parent, key, tokens, slots)
        parent.children[key] = node
        return node


def num_common(left: Ints, right: Ints) -> int:
    """Length of the common prefix. Compares whole slices, growing, so a late difference costs O(length)."""
    end = min(len(left), len(right))
    start, stride = 0, FIRST_STRIDE
    while start < end:
        stop = min(start + stride, end)
        differs = left[start:stop] != right[start:stop]
        first = int(differs.argmax())
        if differs[first]:
            return start + first
        start, stride = stop, stride * STRIDE_GROWTH
    return end


def _parent(node: TreeNode) -> TreeNode:
    assert node.parent is not None, f"node {node.number} is not in the tree: it was evicted while in use"
    return node.parent


def _compact(part: Ints) -> Ints:
    # A slice keeps its whole buffer alive. Copying once it is under half of that bounds both the memory
    # (twice what the tree holds) and the copying.
    return part.copy() if part.base is not None and part.base.size > 2 * part.size else part
