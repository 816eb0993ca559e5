"""Ranks that get the same ticks decide the same; one that decides anything else is found out within one turn."""

from collections.abc import Callable

import msgspec
import pytest

from managers.messages import RequestFinished
from srt.errors import LockstepDivergence
from srt.forward_batch import ForwardBatch, Prediction
from tests.managers.scheduler.ranks import RankedWorld
from tests.managers.scheduler.schedules import Schedule, check_answers
from tests.managers.scheduler.world import SETTINGS, World, greedy


@pytest.mark.parametrize("size", [2, 3])
def test_ranks_agree_over_any_schedule(size: int) -> None:
    for seed in range(2000, 2030):
        schedule = Schedule.of(seed)
        world = RankedWorld(schedule.settings, size)
        ids: dict[int, list[int]] = {}
        for turn in range(schedule.last_event + 1):
            schedule.send_events(turn, world, ids)
            world.step()
        world.run()
        check_answers(schedule, world, ids)
        for follower in world.followers:
            assert _finishes(follower) == _finishes(world)


def test_one_broadcast_a_turn_is_enough_unless_a_prompt_is_long() -> None:
    world = RankedWorld(SETTINGS, 2)
    world.add("short")
    world.step()
    assert world.group.num_broadcasts == 1
    world.add("refused, but carried to every rank " * 300)
    world.step()
    assert world.group.num_broadcasts == 3


def other_token(world: World) -> None:
    """The follower's model finds another token the likeliest."""
    forward = world.runner.forward

    def wrong(batch: ForwardBatch) -> Prediction:
        logits, likeliest = forward(batch)
        return Prediction(logits, likeliest ^ 1)

    world.runner.forward = wrong  # type: ignore[method-assign]


def other_slot(world: World) -> None:
    """The follower has one free slot less, so the next token goes elsewhere."""
    world.scheduler._memory.books.allocator.extend(0, 0, 1)


def other_end(world: World) -> None:
    """The follower stops a request by itself."""
    running = world.scheduler.running[0]
    object.__setattr__(running.rules, "max_new_tokens", running.num_output + 1)


def other_rows(world: World) -> None:
    """The follower loses a request."""
    del world.scheduler._planner.running[0]


def other_retraction(world: World) -> None:
    """The follower retracts a request that rank 0 goes on with."""
    world.scheduler._planner._retract(world.scheduler._planner.running[-1])


def other_eviction(world: World) -> None:
    """The follower gives up cached tokens that rank 0 keeps."""
    world.scheduler._memory._make_free(world.scheduler._memory.stats().num_free + 1)


@pytest.mark.parametrize(
    "diverge", [other_token, other_slot, other_end, other_rows, other_retraction, other_eviction]
)
def test_a_rank_that_decides_otherwise_is_stopped_within_one_turn(diverge: Callable[[World], None]) -> None:
    world = RankedWorld(SETTINGS, 3)
    for prompt in ("abcdef", "hgfedc", "aaaaaa"):
        world.add(prompt, greedy(20, ignore_eos=True))
    world.add("gone", greedy(1))
    for _ in range(3):
        world.step()
    world.followers[1].check_books = lambda: None  # type: ignore[method-assign]
    diverge(world.followers[1])
    with pytest.raises(LockstepDivergence, match="rank 2"):
        two_turns(world)  # what is decided after a turn's plan is in the next turn's tick


def test_a_divergence_names_the_turn_the_rank_and_both_plans() -> None:
    world = RankedWorld(SETTINGS, 2)
    first, second = (
        world.add("abcdef", greedy(20, ignore_eos=True)),
        world.add("h", greedy(20, ignore_eos=True)),
    )
    world.step()
    other_rows(world.followers[0])
    with pytest.raises(LockstepDivergence) as caught:
        world.step()
    message = str(caught.value)
    assert message.startswith("turn 2: rank 1 and rank 0 decided differently.")
    assert "They differ in: who runs, with how many tokens; which slots are taken." in message
    assert f"Rank 0 planned for turn 2: request {first} +1, request {second} +1." in message
    assert message.endswith(f"Rank 1 planned for turn 2: request {second} +1.")


def test_a_divergence_is_found_before_the_forward_pass() -> None:
    world = RankedWorld(SETTINGS, 2)
    world.add("abcdef", greedy(20, ignore_eos=True))
    world.step()
    follower = world.followers[0]
    follower.runner.keeps_batches = True
    other_slot(follower)
    with pytest.raises(LockstepDivergence, match="differ in: which slots are taken"):
        world.step()
    assert follower.runner.batches == []


def test_a_rank_that_fails_where_rank_0_planned_is_a_difference_too() -> None:
    world = RankedWorld(SETTINGS, 2)
    request = world.add("abcdef", greedy(20, ignore_eos=True))
    world.step()
    world.followers[0].scheduler.running[0].holding = None
    with pytest.raises(LockstepDivergence, match=f"^turn 2: rank 1 cannot plan .* request {request} \\+1: "):
        world.step()


def two_turns(world: World) -> None:
    world.step()
    world.step()


def _finishes(world: World) -> dict[int, RequestFinished | None]:
    # Each rank has its own clock to tell times by; what only one of them sends need not be the same.
    return {
        request_id: heard.finished and msgspec.structs.replace(heard.finished, timing=None)
        for request_id, heard in world.heard.items()
    }
