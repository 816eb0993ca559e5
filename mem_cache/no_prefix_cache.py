"""`NoPrefixCache`: the PrefixCache that shares nothing. Every match is empty, every slot stays the caller's."""

from collections.abc import Iterable

import numpy as np

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


class _Nowhere:
    """The one place there is."""


class NoPrefixCache(PrefixCache):
    """Owns no slot at any time."""

    def __init__(self, page_size: int) -> None:
        self.page_size = page_size
        self._empty = PrefixMatch(np.empty(0, np.int32), _Nowhere())

    def match(self, token_ids: TokenIds, namespace: Namespace = ()) -> PrefixMatch:
        """Nothing."""
        return self._empty

    def trace(self, token_ids: TokenIds, namespace: Namespace = ()) -> PrefixTrace:
        """Nowhere."""
        return PrefixTrace(0, ())

    def insert(
        self, token_ids: TokenIds, slots: Slots, owned_from: int, namespace: Namespace = ()
    ) -> InsertResult:
        """Take nothing; nothing is redundant either, as no KV is held for these tokens."""
        assert owned_from == 0, f"{owned_from} tokens cannot be owned by a cache that owns none"
        return InsertResult(self._empty, np.empty(0, np.int32))

    def count_use(self, node: PrefixNode, *, num_tokens: int, num_counted: int, priority: int) -> None:
        """Nothing to count."""

    def lock(self, node: PrefixNode) -> None:
        """Nothing to keep."""

    def unlock(self, node: PrefixNode) -> None:
        """Nothing to let go."""

    def evict(self, num_tokens: int) -> Slots:
        """Nothing to give up."""
        return np.empty(0, np.int32)

    def reset(self) -> Slots:
        """Nothing to forget."""
        return np.empty(0, np.int32)

    def stats(self) -> PrefixCacheStats:
        """All zero."""
        return PrefixCacheStats(0, 0, 0)

    def held_slots(self) -> Slots:
        """None."""
        return np.empty(0, np.int32)

    def check(self, held: Iterable[PrefixNode] | None = None) -> None:
        """Always right."""

    def mend(self, unsound: Slots) -> None:
        """Nothing to mend."""
