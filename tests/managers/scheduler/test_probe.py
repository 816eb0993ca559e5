"""A health check of one token: it is served in the next step, however full the server is, and disturbs nobody."""

import pytest

from managers.scheduler.priorities import PriorityRules
from tests.managers.scheduler.solo import solo
from tests.managers.scheduler.world import World, greedy

LONG = greedy(100, ignore_eos=True)
PROBE = greedy(1)


def probe(world: World) -> int:
    return world.add([0], PROBE, is_probe=True)


def has_ended(world: World, request_id: int) -> bool:
    heard = world.heard.get(request_id)
    return heard is not None and heard.finished is not None


def test_it_waits_for_no_place_and_no_queue() -> None:
    world = World(max_running_requests=2, max_queued_requests=1)
    others = [world.add(f"prompt {i}", LONG) for i in range(3)]
    world.step()
    check = probe(world)
    world.step()
    assert has_ended(world, check)
    assert not any(has_ended(world, other) for other in others)
    world.run()
    assert [world.answer(other) for other in others] == [solo(f"prompt {i}".encode(), LONG) for i in range(3)]


def test_it_does_not_wait_for_a_long_prompt_in_chunks() -> None:
    world = World(chunk_size=4)
    world.add("x" * 200, LONG)
    world.step()
    check = probe(world)
    world.step()
    assert has_ended(world, check)


def test_memory_that_is_only_reserved_is_not_kept_from_it() -> None:
    world = World(capacity=120)
    world.add("hello", greedy(110, ignore_eos=True))
    world.step()
    waiting = world.add("another", LONG)
    check = probe(world)
    world.step()
    assert has_ended(world, check)
    assert not has_ended(world, waiting)


def test_it_goes_before_the_urgent_and_takes_nobodys_place() -> None:
    world = World(max_running_requests=1, priorities=PriorityRules(is_enabled=True, preemption_threshold=0))
    running = world.add("running", LONG, priority=0)
    world.step()
    check = probe(world)
    world.step()
    assert has_ended(world, check)
    assert [request.id for request in world.scheduler.running] == [running]
    assert world.scheduler.stats().num_retractions == 0


@pytest.mark.parametrize("overlaps", [False, True])
def test_two_at_once_in_a_full_server_follow_each_other(overlaps: bool) -> None:
    world = World(max_running_requests=1, overlaps=overlaps)
    world.add("hello", LONG)
    world.step()
    checks = [probe(world), probe(world)]
    for _ in range(4):
        world.step()
    assert all(has_ended(world, check) for check in checks)


def test_others_of_the_same_beginning_do_not_hold_it_up() -> None:
    world = World(chunk_size=4)
    world.add([0] * 40, LONG)
    check = probe(world)
    world.step()
    world.step()
    assert has_ended(world, check)
