"""Who takes too long is ended by the tick's clock, and leaves nothing behind."""

import pytest

from managers.scheduler.deadlines import LEAST_ENTRIES, Deadlines
from managers.scheduler.priorities import PriorityRules
from managers.scheduler.request import Stage
from tests.managers.scheduler.made_requests import request
from tests.managers.scheduler.solo import solo
from tests.managers.scheduler.world import World, greedy

LONG = greedy(100, ignore_eos=True)


def later(world: World, seconds: float) -> None:
    world.clock.advance(seconds)
    world.step()


def test_who_waits_too_long_gets_a_503_and_the_running_one_goes_on() -> None:
    world = World(max_running_requests=1, waiting_timeout_s=5.0)
    running, waiting = world.add("first", LONG), world.add("second")
    world.step()
    later(world, 4.9)
    assert waiting not in world.heard
    later(world, 0.1)
    assert world.finish(waiting).reason.status_code == 503
    assert "--request-waiting-timeout" in world.finish(waiting).reason.message
    world.run()
    assert world.answer(running) == solo(b"first", LONG)


def test_who_has_run_has_not_waited_too_long_even_when_it_waits_again() -> None:
    world = World(
        max_running_requests=1,
        waiting_timeout_s=5.0,
        priorities=PriorityRules(is_enabled=True, preemption_threshold=0),
    )
    preempted = world.add("first", LONG, priority=0)
    world.step()
    world.add("second", LONG, priority=5)
    world.step()
    later(world, 10.0)
    world.run()
    assert world.answer(preempted) == solo(b"first", LONG)


def test_who_runs_too_long_gets_a_504_and_its_slots_are_free_in_that_step() -> None:
    world = World(running_timeout_s=5.0)
    request_id = world.add("hello", LONG, stream=False)
    world.step()
    later(world, 4.9)
    assert request_id not in world.heard
    later(world, 0.1)
    assert world.finish(request_id).reason.status_code == 504
    assert "--request-running-timeout" in world.finish(request_id).reason.message
    assert world.stats().memory.num_used == 0
    assert world.scheduler.is_idle


def test_the_place_of_the_late_is_taken_in_the_same_step() -> None:
    world = World(max_running_requests=1, running_timeout_s=5.0)
    late, next_one = world.add("first", LONG), world.add("second", LONG)
    world.step()
    later(world, 5.0)
    assert world.finish(late).reason.status_code == 504
    assert [running.id for running in world.scheduler.running] == [next_one]


def test_waiting_does_not_count_as_running() -> None:
    world = World(max_running_requests=1, running_timeout_s=5.0)
    first, second = world.add("first", LONG), world.add("second", greedy(2, ignore_eos=True))
    world.step()
    later(world, 4.0)
    world.abort(first)
    world.step()
    later(world, 4.0)
    assert world.answer(second) == solo(b"second", greedy(2, ignore_eos=True))


def test_what_was_computed_until_the_time_out_can_be_reused() -> None:
    world = World(running_timeout_s=5.0)
    world.add("hello world", LONG)
    world.step()
    later(world, 5.0)
    again = world.add("hello world", greedy(1))
    world.run()
    assert world.finish(again).cached_tokens == 10


@pytest.mark.parametrize("num_turns", [0, 1, 3])
def test_a_request_may_bring_its_own_limit_for_waiting_and_running_together(num_turns: int) -> None:
    world = World(max_running_requests=1, chunk_size=4)
    other = world.add("other", greedy(2, ignore_eos=True))
    request_id = world.add("a prompt of several chunks", LONG, timeout_s=2.0)
    world.step()
    for _ in range(num_turns):
        world.step()
    later(world, 2.0)
    assert world.finish(request_id).reason.status_code == 504
    assert "timeout_s of 2 s" in world.finish(request_id).reason.message
    world.run()
    assert world.finish(other).reason.type == "length"
    assert world.stats().memory.num_used == 0


def test_a_retracted_request_is_ended_by_its_limit_with_what_it_has_streamed() -> None:
    world = World(capacity=64, conservativeness=0.0)
    sampling = greedy(50, ignore_eos=True, stop=("never",))
    ids = [world.add(prompt * 4, sampling, timeout_s=60.0) for prompt in "abc"]
    while world.stats().num_retractions == 0:
        world.step()
    later(world, 60.0)
    for request_id in ids:
        assert world.finish(request_id).reason.status_code == 504
        assert world.finish(request_id).completion_tokens > 0
    assert world.stats().memory.num_used == 0


def test_who_ends_in_time_hears_nothing_of_it() -> None:
    world = World(waiting_timeout_s=1.0, running_timeout_s=1.0)
    request_id = world.add("hello", timeout_s=1.0)
    world.run()
    later(world, 10.0)
    assert world.answer(request_id) == solo(b"hello", greedy())


def test_an_abort_and_a_time_out_in_one_turn_are_one_end() -> None:
    world = World(running_timeout_s=1.0)
    request_id = world.add("hello", LONG, timeout_s=1.0)
    world.step()
    world.abort(request_id)
    later(world, 1.0)
    assert world.finish(request_id).reason.status_code == 200


def test_limits_of_ended_requests_are_forgotten() -> None:
    deadlines = Deadlines()
    for arrival in range(10 * LEAST_ENTRIES):
        ended = request(arrival, stage=Stage.WAITING)
        deadlines.note_arrival(ended, 0.0, 1000.0)
        ended.stage = Stage.FINISHED
    assert len(deadlines._entries) <= LEAST_ENTRIES
    assert deadlines.take_due(2000.0) == []
