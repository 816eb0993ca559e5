"""A small world that uses KV memory the way the scheduler does, with the KV written down beside it.

The KV of a token is, for a model, a function of all tokens up to it. Here it *is* these tokens: `kv[slot]` holds the
namespace and the prefix that ends with the slot's token. So whatever shares, frees or reuses a slot wrongly shows as
a prefix that is not the request's own.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from mem_cache.books import take_stock
from mem_cache.build import KVMemory
from mem_cache.page_math import round_down
from mem_cache.prefix_cache import Namespace, PrefixNode, Slots

Prefix = tuple[Namespace, tuple[int, ...]]


@dataclass(kw_only=True)
class Running:
    """One request: `num_owned` of its `num_computed` tokens belong to the cache, the rest are its own."""

    tokens: list[int]
    namespace: Namespace
    row: int
    node: PrefixNode
    num_owned: int
    num_computed: int


@dataclass(kw_only=True)
class RequestWorld:
    memory: KVMemory
    kv: dict[int, Prefix] = field(default_factory=dict)
    cached: set[Prefix] = field(default_factory=set)  # the naive model: every cached whole-page prefix
    running: list[Running] = field(default_factory=list)
    decisions: list[list[int]] = field(default_factory=list)  # every slot ever chosen, for comparison

    def start(self, tokens: Iterable[int], namespace: Namespace = ()) -> Running | None:
        """Take a row and the cached prefix; None when no row is free."""
        row = self.memory.table.allocate()
        if row is None:
            return None
        tokens = list(tokens)
        match = self.memory.cache.match(as_ids(tokens[:-1]), namespace)
        assert match.num_tokens == self.num_cached(tokens[:-1], namespace)
        self.memory.cache.lock(match.node)
        self.memory.table.write(row, 0, match.slots)
        request = Running(
            tokens=tokens,
            namespace=namespace,
            row=row,
            node=match.node,
            num_owned=match.num_tokens,
            num_computed=match.num_tokens,
        )
        self.running.append(request)
        self._note(match.slots)
        return request

    def compute(self, request: Running, num_new: int) -> bool:
        """Give KV to the next `num_new` tokens, evicting if need be; False when there is no room."""
        allocator, table = self.memory.allocator, self.memory.table
        held = request.num_computed
        num_needed = allocator.num_needed(held, num_new)
        self.evict(num_needed - allocator.stats().num_free)
        last_slot = int(table.read(request.row, held - 1, held)[0]) if held else 0
        slots = allocator.extend(held, last_slot, num_new)
        if slots is None:
            return False
        assert len(slots) == num_new
        table.write(request.row, held, slots)
        for place, slot in enumerate(slots.tolist(), start=held + 1):
            self.kv[slot] = (request.namespace, tuple(request.tokens[:place]))
        request.num_computed += num_new
        self._note(slots)
        return True

    def evict(self, num_tokens: int) -> None:
        if num_tokens <= 0:
            return
        evicted = self.memory.cache.evict(num_tokens)
        page_size = self.memory.allocator.page_size
        for slot in evicted.reshape(-1, page_size)[:, -1].tolist():
            self.cached.remove(self.kv[slot])
        self.memory.allocator.free(evicted)
        self._note(evicted)

    def keep(self, request: Running) -> None:
        """Let others share what is computed so far, and go on with what the cache holds."""
        slots = self.slots_of(request)
        tokens = as_ids(request.tokens[: request.num_computed])
        result = self.memory.cache.insert(tokens, slots, request.num_owned, request.namespace)
        self.memory.allocator.free(result.redundant)
        self.memory.table.write(request.row, 0, result.match.slots)
        self.memory.cache.lock(result.match.node)
        self.memory.cache.unlock(request.node)
        request.node, request.num_owned = result.match.node, result.match.num_tokens
        page_size = self.memory.allocator.page_size
        for end in range(page_size, request.num_owned + 1, page_size):
            self.cached.add((request.namespace, tuple(request.tokens[:end])))
        self._note(result.match.slots)
        self._note(result.redundant)

    def finish(self, request: Running) -> None:
        self.keep(request)
        self.drop(request)

    def drop(self, request: Running) -> None:
        """End the request, keeping no more of it than is cached already: an abort."""
        self.memory.allocator.free(self.slots_of(request)[request.num_owned :])
        self.memory.cache.unlock(request.node)
        self.memory.table.free(request.row)
        self.running.remove(request)

    def slots_of(self, request: Running) -> Slots:
        return self.memory.table.read(request.row, 0, request.num_computed)

    def num_cached(self, tokens: list[int], namespace: Namespace) -> int:
        """What `match` should find, by trying every prefix."""
        page_size = self.memory.allocator.page_size
        ends = range(page_size, round_down(len(tokens), page_size) + 1, page_size)
        return max((end for end in ends if (namespace, tuple(tokens[:end])) in self.cached), default=0)

    def check(self) -> None:
        """Every slot is in one place, and every request's KV is that of its own tokens."""
        self.memory.cache.check()
        own = [self.slots_of(request)[request.num_owned :] for request in self.running]
        stock = take_stock(self.memory, own)
        assert stock.balances, stock
        total = stock.num_free + stock.num_evictable + stock.num_protected + stock.num_in_flight
        assert total == stock.capacity == self.memory.allocator.capacity
        assert stock.num_evictable + stock.num_protected == len(self.cached) * self.memory.allocator.page_size
        for request in self.running:
            for end, slot in enumerate(self.slots_of(request).tolist(), start=1):
                assert self.kv[slot] == (request.namespace, tuple(request.tokens[:end]))

    def _note(self, slots: Slots) -> None:
        self.decisions.append(slots.tolist())


def as_ids(tokens: Iterable[int]) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    return np.array(list(tokens), np.int32)
