"""Faults planted in the books of KV memory: a running server finds them once it is idle, says so and goes on."""

from collections.abc import Callable

import numpy as np
import pytest

from managers.messages import GetState, GetStateReply
from managers.scheduler.invariants import find_violations
from managers.scheduler.request_memory import RequestMemory
from mem_cache.radix_cache import RadixCache
from mem_cache.slot_allocator import TokenAllocator
from tests.managers.scheduler.solo import solo
from tests.managers.scheduler.world import World, greedy

KEPT = "a prompt that stays cached"
LONG = greedy(40, ignore_eos=True)


def broken_world(page_size: int = 1) -> World:
    """A world with one cached prompt, in which a fault does not end the test at once."""
    world = World(page_size=page_size)
    world.add(KEPT, greedy(1))
    world.run()
    world.check_books = lambda: None  # type: ignore[method-assign]
    return world


def leak_slots(memory: RequestMemory) -> None:
    memory.books.allocator.extend(0, 0, 3)


def lose_a_row(memory: RequestMemory) -> None:
    memory.books.table.allocate()


def leave_a_lock(memory: RequestMemory) -> None:
    cache = memory.books.cache
    cache.lock(cache.match(np.frombuffer(KEPT.encode(), np.uint8).astype(np.int32)).node)


def miscount(memory: RequestMemory) -> None:
    cache = memory.books.cache
    assert isinstance(cache, RadixCache)
    cache._num_evictable -= cache.page_size


def become_idle(world: World) -> None:
    """A request comes and leaves; then nothing comes, and there is time to look."""
    world.add("unrelated", greedy(2))
    world.run()
    world.step()
    world.step()


@pytest.mark.parametrize("page_size", [1, 16])
@pytest.mark.parametrize("plant", [leak_slots, lose_a_row, leave_a_lock, miscount])
def test_a_fault_is_mended_and_what_was_cached_stays(
    plant: Callable[[RequestMemory], None], page_size: int, caplog: pytest.LogCaptureFixture
) -> None:
    world = broken_world(page_size)
    plant(world.scheduler._memory)
    become_idle(world)
    assert world.stats().num_ledger_repairs == 1
    assert find_violations(world.scheduler._memory, ()) == []
    assert "does not add up" in caplog.text
    assert "It was repaired" in caplog.text
    again = world.add(KEPT)
    world.run()
    assert world.finish(again).cached_tokens == (len(KEPT) - 1) // page_size * page_size
    assert world.answer(again) == solo(KEPT.encode(), greedy())
    become_idle(world)
    assert world.stats().num_ledger_repairs == 1


@pytest.mark.parametrize("page_size", [1, 16])
def test_a_prefix_whose_slots_were_freed_is_forgotten_and_others_stay(
    page_size: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Somebody else may have written there since: what it holds cannot be trusted."""
    world = broken_world(page_size)
    doubtful = "b" * 40
    world.add(doubtful, greedy(1))
    world.run()
    memory = world.scheduler._memory
    match = memory.books.cache.match(np.frombuffer(doubtful.encode(), np.uint8).astype(np.int32))
    memory.books.allocator.free(match.slots[-page_size:])
    for _ in range(2):
        world.step()
    assert world.stats().num_ledger_repairs == 1
    assert find_violations(memory, ()) == []
    assert f"slot {match.slots[-page_size]}: " in caplog.text
    assert "cached by request 2" in caplog.text
    kept, forgotten = world.add(KEPT, greedy(1)), world.add(doubtful)
    world.run()
    assert world.finish(kept).cached_tokens == (len(KEPT) - 1) // page_size * page_size
    assert world.finish(forgotten).cached_tokens == 0
    assert world.answer(forgotten) == solo(doubtful.encode(), greedy())


def test_slots_that_two_prefixes_have_are_forgotten_with_both() -> None:
    world = broken_world()
    memory = world.scheduler._memory
    slots = memory.books.allocator.extend(0, 0, 4)
    assert slots is not None
    for text in ([1, 2, 3, 4], [5, 6, 7, 8]):
        memory.books.cache.insert(np.array(text, np.int32), slots, 0)
    become_idle(world)
    assert world.stats().num_ledger_repairs == 1
    assert find_violations(memory, ()) == []
    assert memory.books.cache.match(np.array([1, 2, 3, 4], np.int32)).num_tokens == 0
    assert memory.books.cache.match(np.array([5, 6, 7, 8], np.int32)).num_tokens == 0
    kept = world.add(KEPT, greedy(1))
    world.run()
    assert world.finish(kept).cached_tokens == len(KEPT) - 1


def test_books_that_cannot_be_mended_are_opened_anew(caplog: pytest.LogCaptureFixture) -> None:
    world = broken_world()
    allocator = world.scheduler._memory.books.allocator
    assert isinstance(allocator, TokenAllocator)
    slots = allocator.extend(0, 0, 4)
    assert slots is not None
    allocator.free(slots)
    top = allocator._slots.num_free - 1
    allocator._slots._stack[top] = allocator._slots._stack[
        top - 1
    ]  # one slot is free twice, another is nowhere
    for _ in range(2):
        world.step()
    assert "new books are open" in caplog.text
    assert world.stats().num_ledger_repairs == 1
    assert world.stats().memory.num_free == world.stats().memory.capacity
    again = world.add(KEPT)
    world.run()
    assert world.answer(again) == solo(KEPT.encode(), greedy())


def test_the_log_tells_what_happened_to_a_lost_slot(caplog: pytest.LogCaptureFixture) -> None:
    world = broken_world()
    request_id = world.add("x" * 10, LONG)
    world.step()
    world.step()
    (request,) = world.scheduler.running
    assert request.holding is not None
    lost = request.holding.last_slot
    request.holding.num_slots -= 1  # it forgets what it just took
    request.num_computed -= 1
    world.abort(request_id)
    world.step()
    world.step()
    assert world.stats().num_ledger_repairs == 1
    assert f"slot {lost}: " in caplog.text
    assert f"taken by request {request_id} (now" in caplog.text


@pytest.mark.parametrize(
    ("plant", "complaint"),
    [
        (leak_slots, "slots lost"),
        (lose_a_row, "2 rows are taken, 1 requests run"),
        (leave_a_lock, "is locked 1 times, 0 hold it"),
        (miscount, "evictable, counted"),
    ],
)
def test_tests_find_a_fault_while_requests_run(
    plant: Callable[[RequestMemory], None], complaint: str
) -> None:
    world = broken_world()
    world.add("x" * 10, LONG)
    world.step()
    memory = world.scheduler._memory
    assert find_violations(memory, world.scheduler.running) == []
    plant(memory)
    assert complaint in "; ".join(find_violations(memory, world.scheduler.running))


def test_repairs_are_counted_in_state_and_load() -> None:
    world = broken_world()
    leak_slots(world.scheduler._memory)
    become_idle(world)
    world.clock.advance(5)
    world.send(GetState(control_id=1))
    world.step()
    (reply,) = world.replies
    assert isinstance(reply, GetStateReply)
    assert reply.state["num_ledger_repairs"] == 1
    assert world.loads[-1].num_ledger_repairs == 1


def test_a_sound_memory_is_left_alone() -> None:
    world = broken_world()
    become_idle(world)
    assert world.stats().num_ledger_repairs == 0
