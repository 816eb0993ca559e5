"""Nobody waits for ever, nobody computes what another is about to compute, and estimates hold what they promise."""

import pytest

from managers.scheduler.overtaking import MAX_OVERTAKEN
from managers.scheduler.queue_policy import POLICIES
from tests.managers.scheduler.solo import solo
from tests.managers.scheduler.test_scheduler import check_aborted, used
from tests.managers.scheduler.world import World, greedy

HEAD = "a prefix that many requests have in common, "


def test_short_requests_pass_a_long_one_that_does_not_fit() -> None:
    world = World(capacity=100)
    running = world.add("r" * 50, greedy(20, ignore_eos=True))
    world.step()
    long = world.add("l" * 60, greedy(5, ignore_eos=True))
    short = [world.add("s" * 5, greedy(2, ignore_eos=True)) for _ in range(4)]
    world.run()
    assert world.ended == [*short, running, long]


def test_a_long_request_is_not_passed_for_ever() -> None:
    world = World(capacity=100, max_running_requests=3)
    world.add("r" * 60, greedy(2, ignore_eos=True))
    world.step()
    long = world.add("l" * 60, greedy(5, ignore_eos=True))
    passed = 0
    while long not in world.heard:
        world.add("s" * 30, greedy(4, ignore_eos=True))
        world.step()
        passed = len([request_id for request_id in world.heard if request_id > long])
        assert passed <= MAX_OVERTAKEN
    assert passed > 0
    world.run()
    assert world.answer(long) == solo(b"l" * 60, greedy(5, ignore_eos=True))


@pytest.mark.parametrize("policy", POLICIES)
def test_a_request_without_cached_prefix_is_served_behind_a_hot_one(policy: str) -> None:
    world = World(policy=policy, max_running_requests=1)
    world.add(HEAD, greedy(1))
    world.run()
    for _ in range(3):
        world.add(HEAD + "hot", greedy(2, ignore_eos=True))
    cold = world.add("cold", greedy(1))
    num_later = 0
    while cold not in world.heard:
        world.add(HEAD + "hot", greedy(2, ignore_eos=True))
        num_later += 1
        world.step()
        assert num_later < 4 * MAX_OVERTAKEN


def test_siblings_wait_one_round_and_find_the_prefix_cached() -> None:
    world = World()
    ids = [world.add(HEAD + letter, greedy(3)) for letter in "abcd"]
    turn = world.step()
    assert [request.id for request in turn.admitted] == ids[:1]
    assert [request.id for request in world.step().admitted] == ids[1:]
    world.run()
    assert [world.finish(request_id).cached_tokens for request_id in ids] == [0] + [len(HEAD)] * 3
    for request_id, letter in zip(ids, "abcd", strict=True):
        assert world.answer(request_id) == solo((HEAD + letter).encode(), greedy(3))


def test_siblings_of_a_prompt_in_chunks_wait_until_their_part_is_computed() -> None:
    world = World(chunk_size=60)
    shared = HEAD + "c" * (100 - len(HEAD))
    first = world.add(shared + "x" * 10, greedy(3))
    second = world.add(shared + "y", greedy(3))
    admitted = [[request.id for request in world.step().admitted] for _ in range(3)]
    assert admitted == [[first], [], [second]]  # though the second step had room for it
    world.run()
    assert world.finish(second).cached_tokens == len(shared)


def test_others_do_not_wait_behind_siblings() -> None:
    world = World()
    first, second = world.add(HEAD + "a"), world.add(HEAD + "b")
    other = world.add("something else")
    assert [request.id for request in world.step().admitted] == [first, other]
    world.run()
    assert world.finish(second).cached_tokens == len(HEAD)


def test_when_the_one_who_computes_is_aborted_the_next_does_it() -> None:
    world = World(chunk_size=20)
    first, second = world.add(HEAD + "x" * 60), world.add(HEAD + "y")
    world.step()
    world.abort(first)
    assert [request.id for request in world.step().admitted] == [second]
    world.run()
    assert world.answer(second) == solo((HEAD + "y").encode(), greedy())


def test_abort_while_waiting_for_a_sibling() -> None:
    world = World(chunk_size=20)
    first, second = world.add(HEAD + "x" * 60), world.add(HEAD + "y")
    world.step()
    world.abort(second)
    world.step()
    assert (world.finish(second).reason.type, world.finish(second).cached_tokens) == ("abort", 0)
    world.run()
    assert world.answer(first) == solo((HEAD + "x" * 60).encode(), greedy())


def test_abort_of_a_leader_lets_its_followers_go_on() -> None:
    world = World(chunk_size=20)
    leader = world.add(HEAD)
    followers = [world.add(HEAD, leader=leader) for _ in range(2)]
    world.step()
    world.abort(leader)
    world.run()
    assert world.finish(leader).reason.type == "abort"
    for follower in followers:
        assert world.answer(follower) == solo(HEAD.encode(), greedy())


def test_abort_in_the_very_step_in_which_it_would_end() -> None:
    world = World()
    request_id = world.add("hello", greedy(3, ignore_eos=True))
    world.step()
    world.step()
    world.abort(request_id)
    world.step()
    check_aborted(world, request_id)
    assert world.finish(request_id).completion_tokens == 2


def test_abort_right_after_the_end_changes_nothing() -> None:
    world = World()
    request_id = world.add("hello", greedy(2, ignore_eos=True))
    world.step()
    world.step()
    world.abort(request_id)
    world.step()
    assert world.answer(request_id) == solo(b"hello", greedy(2, ignore_eos=True))
    assert used(world) == 0


@pytest.mark.parametrize("page_size", [1, 16])
def test_when_all_lengths_are_known_nobody_is_ever_retracted(page_size: int) -> None:
    world = World(capacity=160, page_size=page_size, conservativeness=0.0)
    ids = [world.add([97 + i % 8] * (5 + i), greedy(10 + 3 * i, ignore_eos=True)) for i in range(20)]
    world.run()
    assert world.stats().num_retractions == 0
    for i, request_id in enumerate(ids):
        assert world.answer(request_id) == solo([97 + i % 8] * (5 + i), greedy(10 + 3 * i, ignore_eos=True))


def test_after_retractions_admission_becomes_careful() -> None:
    def num_retractions(conservativeness: float) -> int:
        world = World(capacity=120, max_running_requests=16, conservativeness=conservativeness)
        for i in range(16):
            world.add([97 + i % 8, i] * 5, greedy(40, ignore_eos=True, stop=("never",)))
        world.run()
        return world.stats().num_retractions

    assert num_retractions(0.0) > num_retractions(10.0) == 0
