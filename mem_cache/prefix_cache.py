"""`PrefixCache`, the interface: which token prefixes have KV in memory, and who holds them.

Deals in token ids and slot numbers only. It owns the slots it was given (`insert`) until `evict` or `reset`
hands them back to the caller; it never talks to an allocator.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

TokenIds = npt.NDArray[np.int32]  # (num_tokens,)
Slots = npt.NDArray[np.int32]  # (num_tokens,) KV slot numbers; slot 0 is padding and never handed out
Namespace = tuple[str, ...]  # prefixes are shared within a namespace only


class PrefixNode(Protocol):
    """A place in the cache, to lock and unlock. Opaque to callers."""


@dataclass(frozen=True, slots=True)
class PrefixMatch:
    """The longest cached prefix: its slots, a whole number of pages, and the node that ends it."""

    slots: Slots
    node: PrefixNode

    @property
    def num_tokens(self) -> int:
        """Length of the prefix."""
        return len(self.slots)


@dataclass(frozen=True, slots=True)
class PrefixTrace:
    """How much of a sequence is cached, and the nodes on the way, from the root, each by a number of its own."""

    num_tokens: int
    nodes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class InsertResult:
    """What `insert` did.

    `match` is the inserted prefix as the cache now holds it: the caller should use these slots from here
    on. `redundant` are those of the caller's slots that the cache did not take, because it already had KV
    for these tokens: the caller frees them. All else beyond `match` stays the caller's. So, whatever the cache:
    free `redundant`, continue with `match.slots` followed by the caller's slots from `match.num_tokens` on.
    """

    match: PrefixMatch
    redundant: Slots


@dataclass(frozen=True, slots=True)
class PrefixCacheStats:
    """Tokens held: `evictable` by nobody, `protected` by at least one lock."""

    num_evictable: int
    num_protected: int
    num_nodes: int


class PrefixCache(Protocol):
    """Token prefix → KV slots. Every operation is a pure function of the calls before it, on any rank."""

    page_size: int

    def match(self, token_ids: TokenIds, namespace: Namespace = ()) -> PrefixMatch:
        """The longest cached prefix of `token_ids`, in whole pages; marks it as just used.

        The result is safe only while it is locked or nothing else was called in between.
        """
        ...

    def trace(self, token_ids: TokenIds, namespace: Namespace = ()) -> PrefixTrace:
        """Where `match` would lead, without being a use: changes nothing."""
        ...

    def insert(
        self, token_ids: TokenIds, slots: Slots, owned_from: int, namespace: Namespace = ()
    ) -> InsertResult:
        """Take over `slots` (one a token), cut down to whole pages.

        `slots[:owned_from]` are the cache's already (the caller matched or inserted and locked them);
        `slots[owned_from:]` are the caller's. Of these, what lies beyond the last whole page stays the
        caller's and is not in `redundant`.
        """
        ...

    def count_use(self, node: PrefixNode, *, num_tokens: int, num_counted: int, priority: int) -> None:
        """One more request uses the prefix of `num_tokens` that ends at `node`.

        The first `num_counted` of them have been counted for this request before. For eviction policies that
        look at more than the last use.
        """
        ...

    def lock(self, node: PrefixNode) -> None:
        """Keep the prefix that ends at `node` from eviction, once more."""
        ...

    def unlock(self, node: PrefixNode) -> None:
        """Undo one `lock`."""
        ...

    def evict(self, num_tokens: int) -> Slots:
        """Give up at least `num_tokens` unlocked tokens, or all there are, in the order of the eviction policy.

        What continues a prefix goes before the prefix. Returns the slots, which are the caller's again.
        """
        ...

    def reset(self) -> Slots:
        """Forget everything; nothing may be locked. Returns all slots."""
        ...

    def stats(self) -> PrefixCacheStats:
        """Sizes now."""
        ...

    def held_slots(self) -> Slots:
        """Every slot the cache owns, for the books."""
        ...

    def check(self, held: Iterable[PrefixNode] | None = None) -> None:
        """Raise AssertionError if the books do not balance. Walks everything: for tests and idle time.

        `held`: the nodes that are locked, each as often as it is; not checked when unknown.
        """
        ...

    def mend(self, unsound: Slots) -> None:
        """Undo every lock, forget every prefix that lies on a slot of `unsound`, count anew.

        Says nothing about the slots of what it forgets: `books.take_stock` finds them lost.
        """
        ...
