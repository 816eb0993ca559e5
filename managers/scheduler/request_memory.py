"""`RequestMemory`: the only place that takes KV for requests, or gives it back.

Joins three ledgers: which slots are free (the allocator), which prefixes are cached (the prefix cache), which
slots a request uses (the request table). Always true, also between any two calls:

    free + evictable + protected + in flight = capacity

where "in flight" are the pages that requests hold outside the cache.
Next on the request's path: mem_cache/radix_cache.py
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import compress

import numpy as np

from managers.scheduler.decision_digest import Decision, DecisionDigest
from managers.scheduler.request import Holding, Request
from mem_cache.books import mend
from mem_cache.build import KVMemory
from mem_cache.page_math import round_down
from mem_cache.prefix_cache import PrefixTrace, Slots, TokenIds
from mem_cache.slot_history import SlotHistory


@dataclass(frozen=True, slots=True)
class MemoryStats:
    """Slots now. `num_used`: what requests hold, in the cache or outside it; the rest can be had."""

    capacity: int
    num_free: int
    num_evictable: int
    num_protected: int

    @property
    def num_used(self) -> int:
        """Slots that could not be had even by evicting everything."""
        return self.capacity - self.num_free - self.num_evictable

    @property
    def num_cached(self) -> int:
        """Slots that the prefix cache owns."""
        return self.num_evictable + self.num_protected


class RequestMemory:
    """KV slots of all requests of one rank."""

    def __init__(self, build: Callable[[], KVMemory], digest: DecisionDigest) -> None:
        self._build = build
        self._digest = digest
        self.books = build()
        self.page_size = self.books.allocator.page_size
        self.capacity = self.books.allocator.capacity
        self.history = SlotHistory(self.page_size)

    @property
    def num_available(self) -> int:
        """Slots that are free or can be made free."""
        return self.books.allocator.stats().num_free + self.books.cache.stats().num_evictable

    def num_needed(self, request: Request, num_tokens: int) -> int:
        """Slots, in whole pages, that `num_tokens` more tokens of `request` take from what is available."""
        return self.books.allocator.num_needed(_num_slots(request), num_tokens)

    def num_needed_for_one_each(self, requests: Sequence[Request]) -> int:
        """The same for one more token of each of `requests`."""
        if self.page_size == 1:
            return len(requests)
        return self.page_size * sum(_num_slots(request) % self.page_size == 0 for request in requests)

    def num_fitting(self, request: Request, num_available: int) -> int:
        """How many more tokens of `request` fit if so many slots can be had."""
        num_in_last_page = -_num_slots(request) % self.page_size
        return num_in_last_page + round_down(max(num_available, 0), self.page_size)

    def trace(self, request: Request) -> PrefixTrace:
        """How much of a waiting request is cached, and where; changes nothing."""
        return self.books.cache.trace(_matchable(request), request.namespace)

    def num_cached(self, request: Request) -> int:
        """How much of a waiting request is cached now; counts as a use of that prefix."""
        return self.books.cache.match(_matchable(request), request.namespace).num_tokens

    def hold(self, request: Request) -> None:
        """Match and lock the cached prefix of `request`, which from here on counts as computed."""
        assert request.holding is None, f"request {request.id} is held twice"
        row = self.books.table.allocate()
        assert row is not None, "more requests are held than the table has rows"
        match = self.books.cache.match(_matchable(request), request.namespace)
        # Lock first: making room may evict, and would evict the prefix we just matched.
        self.books.cache.lock(match.node)
        self.books.table.write(row, 0, match.slots)
        request.holding = Holding(
            row=row, node=match.node, num_shared=match.num_tokens, num_slots=match.num_tokens
        )
        request.num_computed = match.num_tokens

    def let_go(self, request: Request) -> None:
        """Give back all that `request` holds, its KV included: nothing of it counts as computed any more."""
        holding = request.holding
        assert holding is not None, f"request {request.id} holds nothing"
        own_slots = self.own_slots(request)
        self.books.allocator.free(own_slots)
        self.history.note("given back", (request.id,), own_slots)
        self.books.cache.unlock(holding.node)
        self.books.table.free(holding.row)
        request.holding = None
        request.num_computed = 0

    def extend(self, request: Request, num_tokens: int) -> None:
        """Slots for `num_tokens` more tokens. The caller made sure that they are available."""
        holding = _holding(request)
        self._make_free(self.books.allocator.num_needed(holding.num_slots, num_tokens))
        slots = self.books.allocator.extend(holding.num_slots, holding.last_slot, num_tokens)
        assert slots is not None, f"no room for {num_tokens} tokens of request {request.id}"
        self._append(holding, slots)
        self.history.note("taken", (request.id,), slots)
        self._digest.record_array(Decision.SLOTS, slots)

    def extend_by_one(self, requests: Sequence[Request]) -> None:
        """One more slot for each of `requests`; the allocator is asked once for all of them."""
        holdings = _holdings(requests)
        # A last page without room, or none, needs a new one.
        is_starting = [held.num_slots % self.page_size == 0 for held in holdings]
        starting = [request.id for request in compress(requests, is_starting)]
        num_new = len(starting) * self.page_size
        self._make_free(num_new)
        pages = self.books.allocator.extend(0, 0, num_new)
        assert pages is not None, f"no room for one more token of {len(requests)} requests"
        self.history.note("taken", starting, pages)
        slots = np.array([held.last_slot + 1 for held in holdings], np.int32)
        slots[is_starting] = pages[:: self.page_size]
        self.books.table.append_to_each([held.row for held in holdings], slots)
        for held, slot in zip(holdings, slots.tolist(), strict=True):
            held.last_slot = slot
            held.num_slots += 1
        self._digest.record_array(Decision.SLOTS, slots)

    def share(self, request: Request) -> None:
        """Let others use what `request` has computed so far, in whole pages, from now on.

        Where another request computed the same tokens first, `request` goes on with the other's slots. Prompt and
        answer are cached one after the other: so the answer can be given up, and the prompt kept. A step in flight may
        still be writing the last of it: whoever shares it runs in a later one.
        """
        holding = _holding(request)
        num_shared = holding.num_shared
        num_computed = round_down(min(request.num_computed, request.num_tokens), self.page_size)
        for num_tokens in (min(round_down(request.prompt_len, self.page_size), num_computed), num_computed):
            if num_tokens > holding.num_shared:
                self._share(request, holding, num_tokens)
        if holding.num_shared > min(num_shared, request.num_shared_counted):
            self.books.cache.count_use(
                holding.node,
                num_tokens=holding.num_shared,
                num_counted=request.num_shared_counted,
                priority=request.priority,
            )
            request.num_shared_counted = max(request.num_shared_counted, holding.num_shared)

    def flush(self) -> None:
        """Forget every cached prefix. No request may hold anything."""
        flushed = self.books.cache.reset()
        self.books.allocator.free(flushed)
        self.history.note("flushed", (), flushed)
        self._digest.record(Decision.FLUSH, ())

    def stats(self) -> MemoryStats:
        """Sizes now."""
        free, cached = self.books.allocator.stats(), self.books.cache.stats()
        return MemoryStats(free.capacity, free.num_free, cached.num_evictable, cached.num_protected)

    def own_slots(self, request: Request) -> Slots:
        """The slots that `request` holds outside the cache; they start a page."""
        holding = _holding(request)
        return self.books.table.read(holding.row, holding.num_shared, holding.num_slots)

    def slot_table(self, requests: Sequence[Request]) -> Slots:
        """(len(requests), most slots of one) slot of each position; 0 beyond what a request has."""
        return self.books.table.gather([held.row for held in _holdings(requests)])

    def mend(self) -> None:
        """Put broken books in order as far as possible. No request may hold anything."""
        mend(self.books)
        self._digest.record(Decision.REPAIR, (self.stats().num_free,))

    def rebuild(self) -> None:
        """Open new books, all free: when the old ones cannot be mended. No request may hold anything."""
        self.books = self._build()
        self._digest.record(Decision.REPAIR, ())

    def _share(self, request: Request, holding: Holding, num_tokens: int) -> None:
        slots = self.books.table.read(holding.row, 0, num_tokens)
        token_ids = request.token_ids(0, num_tokens)
        result = self.books.cache.insert(token_ids, slots, holding.num_shared, request.namespace)
        self.history.note("cached", (request.id,), slots[holding.num_shared :].copy())
        self.history.note("given back as redundant", (request.id,), result.redundant)
        self.books.cache.lock(result.match.node)
        self.books.cache.unlock(holding.node)
        self.books.table.write(holding.row, holding.num_shared, result.match.slots[holding.num_shared :])
        holding.node, holding.num_shared = result.match.node, result.match.num_tokens
        self.books.allocator.free(result.redundant)
        self._digest.record(Decision.SHARE, (request.id, holding.num_shared, len(result.redundant)))

    def _append(self, holding: Holding, slots: Slots) -> None:
        self.books.table.write(holding.row, holding.num_slots, slots)
        holding.num_slots += len(slots)
        holding.last_slot = int(slots[-1])

    def _make_free(self, num_slots: int) -> None:
        shortage = num_slots - self.books.allocator.stats().num_free
        if shortage > 0:
            evicted = self.books.cache.evict(shortage)
            self.books.allocator.free(evicted)
            self.history.note("evicted", (), evicted)
            self._digest.record_array(Decision.EVICT, evicted)


def _holding(request: Request) -> Holding:
    assert request.holding is not None, f"request {request.id} holds no memory"
    return request.holding


def _holdings(requests: Sequence[Request]) -> list[Holding]:
    holdings = [request.holding for request in requests if request.holding is not None]
    assert len(holdings) == len(requests), "somebody holds no memory"
    return holdings


def _num_slots(request: Request) -> int:
    return request.holding.num_slots if request.holding is not None else 0


def _matchable(request: Request) -> TokenIds:
    return request.token_ids(0, request.num_matchable)
