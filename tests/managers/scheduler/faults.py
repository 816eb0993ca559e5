"""Ways for one rank to go wrong, once. Each bends one decision at the place where it is made."""

from collections.abc import Callable

import msgspec
import numpy as np
import numpy.typing as npt

from managers.messages import AbortRequest, DefineGrammar, TokenizedRequest
from managers.scheduler.batch import Batch, Row
from managers.scheduler.finish import Finish
from managers.scheduler.rank_broadcast import Tick
from managers.scheduler.request import Request
from managers.scheduler.scheduler import Scheduler
from managers.scheduler.step_planner import StepPlan
from mem_cache.slot_allocator import Slots
from srt.sampling.batch_params import SampleRow
from tests.fakes.grammars import FakeRule
from tests.managers.scheduler.world import World

TickChange = Callable[[Tick], Tick]


def unchanged(tick: Tick) -> Tick:
    return tick


class Gate:
    """Lets one fault through, in turn `first_turn` or later, and tells in which."""

    def __init__(self, scheduler: Scheduler, first_turn: int, on_passed: Callable[[int], None]) -> None:
        self._scheduler = scheduler
        self._first_turn = first_turn
        self._on_passed = on_passed
        self._has_passed = False

    def is_open(self, *, before_turn: bool = False) -> bool:
        """Whether the fault may happen now; `before_turn`: the turn has not begun yet."""
        return not self._has_passed and self._turn + before_turn >= self._first_turn

    def passed(self, *, before_turn: bool = False) -> None:
        """It has happened."""
        self._has_passed = True
        self._on_passed(self._turn + before_turn)

    @property
    def _turn(self) -> int:
        return self._scheduler.stats().turn


def lost_request(world: World, gate: Gate) -> TickChange:
    """Who runs: one request less."""
    planner = world.scheduler._planner
    plan = planner.plan

    def wrong() -> StepPlan:
        if gate.is_open() and planner.running:
            planner.running.pop()
            gate.passed()
        return plan()

    planner.plan = wrong  # type: ignore[method-assign]
    return unchanged


def smaller_chunk(world: World, gate: Gate) -> TickChange:
    """Number of tokens: one less in one row."""
    planner = world.scheduler._planner
    add_rows = planner._add_rows

    def wrong(plan: StepPlan, rows: list[Row]) -> int:
        if gate.is_open() and rows and rows[0].num_tokens > 1:
            gate.passed()
            rows = [rows[0]._replace(num_tokens=rows[0].num_tokens - 1), *rows[1:]]
        return add_rows(plan, rows)

    planner._add_rows = wrong  # type: ignore[method-assign]
    return unchanged


def other_slot(world: World, gate: Gate) -> TickChange:
    """A slot: the page that should be taken is passed over."""
    allocator = world.scheduler._memory.books.allocator
    extend = allocator.extend

    def wrong(num_held: int, last_slot: int, num_new: int) -> Slots | None:
        num_needed = allocator.num_needed(num_held, num_new)
        has_spare = num_needed + allocator.page_size <= allocator.stats().num_free
        if not gate.is_open() or num_needed == 0 or not has_spare:
            return extend(num_held, last_slot, num_new)
        gate.passed()
        spare = extend(0, 0, allocator.page_size)
        slots = extend(num_held, last_slot, num_new)
        assert spare is not None
        allocator.free(spare)
        return slots

    allocator.extend = wrong  # type: ignore[method-assign]
    return unchanged


def other_eviction(world: World, gate: Gate) -> TickChange:
    """An evicted slot: one page more is given up than is needed."""
    cache = world.scheduler._memory.books.cache
    evict = cache.evict

    def wrong(num_tokens: int) -> Slots:
        evicted = evict(num_tokens)
        if not gate.is_open():
            return evicted
        more = evict(cache.page_size)
        if len(more):
            gate.passed()
        return np.concatenate([evicted, more])

    cache.evict = wrong  # type: ignore[method-assign]
    return unchanged


def other_victim(world: World, gate: Gate) -> TickChange:
    """A retraction: somebody else gives way."""
    planner = world.scheduler._planner
    retract = planner._retract

    def wrong(victim: Request) -> None:
        others = [request for request in planner.running[1:] if request is not victim]
        if gate.is_open() and others:
            gate.passed()
            victim = others[0]
        retract(victim)

    planner._retract = wrong  # type: ignore[method-assign]
    return unchanged


def early_end(world: World, gate: Gate) -> TickChange:
    """A finish: one request has fewer tokens left."""
    return _bend_limit(
        world, gate, lambda request: request.num_tokens_left > 0, lambda num_output: num_output
    )


def missed_end(world: World, gate: Gate) -> TickChange:
    """A finish: a request goes on behind its last token."""
    return _bend_limit(
        world, gate, lambda request: request.num_tokens_left == 0, lambda num_output: num_output + 4
    )


def _bend_limit(
    world: World, gate: Gate, is_fit: Callable[[Request], bool], limit: Callable[[int], int]
) -> TickChange:
    results = world.scheduler._results
    judge = results.judge

    def wrong(batch: Batch, token_ids: npt.NDArray[np.int64]) -> list[Request]:
        for index, token_id in zip(batch.sampling, token_ids.tolist(), strict=True):
            request = batch.rows[index].request
            if gate.is_open() and is_fit(request) and token_id not in request.rules.stop_token_ids:
                if request.sampling.stop:
                    continue  # might end by itself
                gate.passed()
                object.__setattr__(request.rules, "max_new_tokens", limit(request.num_output))
        return judge(batch, token_ids)

    results.judge = wrong  # type: ignore[method-assign]
    return unchanged


def other_token(world: World, gate: Gate) -> TickChange:
    """A sampled token: one bit of one row."""
    results = world.scheduler._results
    grow = results.grow

    def wrong(batch: Batch, token_ids: npt.NDArray[np.int64]) -> None:
        if gate.is_open() and len(token_ids) > 0:
            gate.passed()
            token_ids[-1] ^= 1
        grow(batch, token_ids)

    results.grow = wrong  # type: ignore[method-assign]
    return unchanged


def other_clock(world: World, gate: Gate) -> TickChange:
    """The tick's clock, misread by a millisecond."""

    def wrong(tick: Tick) -> Tick:
        if not gate.is_open(before_turn=True):
            return tick
        gate.passed(before_turn=True)
        return msgspec.structs.replace(tick, clock=tick.clock + 0.001)

    return wrong


def lost_abort(world: World, gate: Gate) -> TickChange:
    """An abort of a live request that one rank does not get."""

    def wrong(tick: Tick) -> Tick:
        aborts = [message for message in tick.messages if isinstance(message, AbortRequest)]
        ids = [request_id for message in aborts for request_id in message.request_ids]
        if not gate.is_open(before_turn=True) or not any(i in world.scheduler._live for i in ids):
            return tick
        gate.passed(before_turn=True)
        return msgspec.structs.replace(tick, messages=[m for m in tick.messages if m not in aborts])

    return wrong


def swapped_arrivals(world: World, gate: Gate) -> TickChange:
    """Two requests of one turn, taken in the other order."""

    def wrong(tick: Tick) -> Tick:
        arrivals = [m for m in tick.messages if isinstance(m, TokenizedRequest)]
        if not gate.is_open(before_turn=True) or len(arrivals) < 2:
            return tick
        gate.passed(before_turn=True)
        return msgspec.structs.replace(tick, messages=tick.messages[::-1])

    return wrong


def missed_deadline(world: World, gate: Gate) -> TickChange:
    """A deadline that one rank does not see pass."""
    deadlines = world.scheduler._deadlines
    take_due = deadlines.take_due

    def wrong(clock: float) -> list[tuple[Request, Finish]]:
        due = take_due(clock)
        if gate.is_open() and due:
            gate.passed()
            return due[1:]
        return due

    deadlines.take_due = wrong  # type: ignore[method-assign]
    return unchanged


def other_grammar(world: World, gate: Gate) -> TickChange:
    """A grammar that arrives as another one."""

    def wrong(tick: Tick) -> Tick:
        for place, message in enumerate(tick.messages):
            if isinstance(message, DefineGrammar) and gate.is_open(before_turn=True):
                gate.passed(before_turn=True)
                changed = msgspec.structs.replace(message, payload=FakeRule(letters="q").payload())
                return msgspec.structs.replace(
                    tick, messages=[*tick.messages[:place], changed, *tick.messages[place + 1 :]]
                )
        return tick

    return wrong


def other_mask(world: World, gate: Gate) -> TickChange:
    """A grammar that lets another token through."""
    rows_of = Batch.sample_rows

    def wrong(batch: Batch) -> list[SampleRow]:
        rows = rows_of(batch)
        for row in rows:
            if row.allowed is not None and gate.is_open() and row.params.is_greedy:
                gate.passed()
                row.allowed[:] = 0
                row.allowed[0] = 1
        return rows

    Batch.sample_rows = wrong  # type: ignore[method-assign]
    return unchanged


FAULTS: dict[str, Callable[[World, Gate], TickChange]] = {
    fault.__name__: fault
    for fault in (
        lost_request,
        smaller_chunk,
        other_slot,
        other_eviction,
        other_victim,
        early_end,
        missed_end,
        other_token,
        other_clock,
        lost_abort,
        swapped_arrivals,
        missed_deadline,
        other_grammar,
        other_mask,
    )
}
