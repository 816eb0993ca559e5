"""Priorities in a whole scheduler: who is served first, who gives way, who is evicted, and that nothing is lost."""

import msgspec
import pytest

from managers.scheduler.overtaking import MAX_PREEMPTED
from managers.scheduler.priorities import PriorityRules
from tests.managers.scheduler.solo import solo
from tests.managers.scheduler.test_scheduler import check_aborted, used
from tests.managers.scheduler.world import World, greedy

RULES = PriorityRules(is_enabled=True, preemption_threshold=10)
PATIENT = PriorityRules(is_enabled=True)
LONG = greedy(40, ignore_eos=True)


def test_the_more_urgent_run_first() -> None:
    world = World(max_running_requests=1, priorities=PATIENT)
    ids = [world.add("hello", greedy(1), priority=priority) for priority in (None, 1, 5, 1)]
    world.run()
    assert world.ended == [ids[2], ids[1], ids[3], ids[0]]


def test_without_the_flag_the_field_is_ignored() -> None:
    world = World(max_running_requests=1)
    ids = [world.add("hello", greedy(1), priority=priority) for priority in (1, 5)]
    world.run()
    assert world.ended == ids


def test_without_the_flag_the_field_can_be_refused() -> None:
    world = World(priorities=PriorityRules(refuses_when_disabled=True))
    refused, served = world.add("hello", priority=1), world.add("hello")
    world.run()
    assert world.finish(refused).reason.status_code == 503
    assert world.answer(served) == solo(b"hello", greedy())


def test_a_full_queue_evicts_the_last_of_the_least_urgent() -> None:
    world = World(max_running_requests=1, max_queued_requests=2, priorities=PATIENT)
    running = world.add("running", LONG, priority=1)
    world.step()
    first, second = world.add("first", priority=1), world.add("second", priority=1)
    urgent, equal = world.add("urgent", priority=2), world.add("equal", priority=1)
    world.run()
    assert [world.finish(i).reason.status_code for i in (running, first, urgent)] == [200] * 3
    assert world.finish(second).reason.status_code == 503
    assert "aborted by a higher priority request" in world.finish(second).reason.message
    assert world.finish(equal).reason.status_code == 503
    assert "higher priority" not in world.finish(equal).reason.message


def test_an_urgent_request_takes_the_place_of_a_running_one_which_goes_on_later() -> None:
    world = World(max_running_requests=1, priorities=RULES)
    low = world.add("lowly", greedy(20, ignore_eos=True), priority=0)
    for _ in range(5):
        world.step()
    high = world.add("urgent", LONG, priority=11)
    world.step()
    assert [request.id for request in world.scheduler.running] == [high]
    assert len(world.heard[high].token_ids) == 1
    world.run()
    assert world.ended == [high, low]
    assert world.answer(low) == solo(b"lowly", greedy(20, ignore_eos=True))
    assert world.answer(high) == solo(b"urgent", LONG)


@pytest.mark.parametrize("rules", [RULES, PATIENT])
def test_within_the_threshold_or_without_preemption_it_waits(rules: PriorityRules) -> None:
    world = World(max_running_requests=1, priorities=rules)
    low = world.add("lowly", LONG, priority=0)
    world.step()
    high = world.add("urgent", greedy(1), priority=10)
    world.run()
    assert world.ended == [low, high]


def test_an_urgent_request_gets_the_memory_of_running_ones() -> None:
    world = World(capacity=64, priorities=RULES)
    low = [world.add(letter * 10, greedy(20, ignore_eos=True), priority=0) for letter in "ab"]
    world.step()
    high = world.add("h" * 30, greedy(20, ignore_eos=True), priority=99)
    world.step()
    assert high in [request.id for request in world.scheduler.running]
    assert len(world.scheduler.running) == 1
    world.run()
    assert world.ended[0] == high
    for request_id, letter in zip(low, b"ab", strict=True):
        assert world.answer(request_id) == solo([letter] * 10, greedy(20, ignore_eos=True))


def test_when_memory_runs_out_the_least_urgent_gives_way_even_if_it_is_the_oldest() -> None:
    world = World(capacity=40, priorities=PATIENT, conservativeness=0.0)
    sampling = greedy(25, ignore_eos=True, stop=("never",))
    low = world.add("a" * 10, sampling, priority=0)
    high = world.add("b" * 10, sampling, priority=5)
    world.run()
    assert world.stats().num_retractions > 0
    assert world.ended == [high, low]
    assert world.answer(low) == solo(b"a" * 10, sampling)


def test_nobody_is_preempted_for_ever() -> None:
    world = World(max_running_requests=1, priorities=RULES)
    low = world.add("lowly", LONG, priority=0)
    world.step()
    while world.heard[low].finished is None:
        world.add("urgent", greedy(1), priority=99)
        world.step()
        world.step()
        assert world.stats().num_retractions <= MAX_PREEMPTED
    assert world.answer(low) == solo(b"lowly", LONG)


def test_the_answer_of_a_preempted_request_goes_on_with_its_seed_penalties_and_stop_strings() -> None:
    def answer(*, is_disturbed: bool) -> object:
        world = World(max_running_requests=1, priorities=RULES)
        sampling = greedy(60, ignore_eos=True, frequency_penalty=0.3, stop=("fg", "ba"), min_new_tokens=20)
        sampling = msgspec.structs.replace(sampling, temperature=1.5, seed=7)
        low = world.add("lowly", sampling, priority=0)
        for _ in range(3):
            for _ in range(5):
                world.step()
            if is_disturbed:
                world.add("urgent", greedy(3, ignore_eos=True), priority=99)
        world.run()
        assert (world.stats().num_retractions > 0) == is_disturbed
        return world.answer(low)

    assert answer(is_disturbed=True) == answer(is_disturbed=False)


def test_abort_of_a_preempted_request() -> None:
    world = World(max_running_requests=1, priorities=RULES)
    low = world.add("lowly", LONG, priority=0)
    world.step()
    high = world.add("urgent", LONG, priority=99)
    world.step()
    world.abort(low)
    world.step()
    assert world.finish(low).reason.type == "abort"
    assert len(world.heard[low].token_ids) == 1
    world.abort(high)
    world.step()
    check_aborted(world, high)


def test_abort_of_the_urgent_one_in_the_turn_in_which_it_would_preempt() -> None:
    world = World(max_running_requests=1, priorities=RULES)
    low = world.add("lowly", LONG, priority=0)
    world.step()
    high = world.add("urgent", LONG, priority=99)
    world.abort(high)
    world.step()
    assert world.finish(high).completion_tokens == 0
    assert world.stats().num_retractions == 0
    world.abort(low)
    world.step()
    assert used(world) == 0
