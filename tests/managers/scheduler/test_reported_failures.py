"""Loads that have brought such servers to a halt or to a wrong text, in small. World checks the books in every turn."""

import random
from collections import Counter

import pytest

from managers.messages import FlushCache, FlushCacheReply
from tests.managers.scheduler.solo import solo
from tests.managers.scheduler.world import World, greedy

SYSTEM = "You are a helpful assistant and know these documents. "
# Could end any time, for all that the scheduler knows: it is too hopeful about these.
UNBOUNDED = {"ignore_eos": True, "stop": ("never",)}


def used(world: World) -> int:
    return world.stats().memory.num_used


def document(rng: random.Random, length: int) -> str:
    return "".join(rng.choices("abcdefgh", k=length))


def flush(world: World) -> bool:
    world.send(FlushCache(control_id=1))
    world.step()
    reply = world.replies.pop()
    assert isinstance(reply, FlushCacheReply)
    return reply.done


@pytest.mark.parametrize("overlaps", [False, True])
def test_the_next_turn_of_a_conversation_whose_last_answer_was_dropped(overlaps: bool) -> None:
    world = World(overlaps=overlaps)
    dropped = world.add("Tell me a story.", greedy(50, ignore_eos=True))
    for _ in range(6):
        world.step()
    world.abort(dropped)
    following = world.add("Tell me a story. And now another one.")
    world.run()
    assert world.answer(following) == solo(b"Tell me a story. And now another one.", greedy())
    assert used(world) == 0


def test_aborting_all_who_wait_answers_each_and_computes_none_of_them() -> None:
    world = World(max_running_requests=1)
    running = world.add("running", greedy(10, ignore_eos=True))
    waiting = [world.add(letter * 100, greedy(50)) for letter in "abcde"]
    world.step()
    world.abort(*waiting)
    batch = world.step().batch
    assert batch is not None
    assert [row.request.id for row in batch.rows] == [running]
    assert [world.finish(request_id).reason.type for request_id in waiting] == ["abort"] * 5
    assert all(world.heard[request_id].opened is None for request_id in waiting)
    assert world.stats().num_waiting == 0
    world.run()
    assert world.answer(running) == solo(b"running", greedy(10, ignore_eos=True))


def test_two_with_the_same_prompt_and_answer_keep_it_once() -> None:
    world = World()
    prompt = "the same long prompt for both"
    first, second = (world.add(prompt, greedy(20, ignore_eos=True)) for _ in range(2))
    world.run()
    answer = world.answer(first).token_ids
    assert world.answer(second).token_ids == answer
    kept = len(prompt) + 19  # nobody needed the KV of the last token
    assert (world.stats().memory.num_cached, used(world)) == (kept, 0)
    longer = world.add([*prompt.encode(), *answer, 65])
    world.run()
    assert world.finish(longer).cached_tokens == kept


@pytest.mark.parametrize("page_size", [1, 4])
def test_prompts_that_part_behind_a_common_beginning_leave_nothing_locked(page_size: int) -> None:
    world = World(page_size=page_size)
    prompts = [SYSTEM + end for end in ("xx", "yyyy", "zzz")]
    for prompt in prompts:
        world.add(prompt)
        world.run()
    ids = [world.add(prompt) for prompt in prompts]
    world.run()
    for request_id, prompt in zip(ids, prompts, strict=True):
        assert world.answer(request_id) == solo(prompt.encode(), greedy())
    assert world.stats().memory.num_protected == 0
    assert flush(world)
    assert world.stats().memory.num_free == world.stats().memory.capacity


def test_after_500_requests_with_documents_a_request_takes_the_steps_that_the_first_took() -> None:
    """The documents fill the memory many times over, and what is used falls to 0 whenever all have ended."""
    rng = random.Random(1)
    world = World(capacity=400, page_size=4)

    def num_steps_of_one() -> int:
        before = world.stats().turn
        world.add(document(rng, 100), greedy(10, ignore_eos=True))
        world.run()
        return world.stats().turn - before

    first = num_steps_of_one()
    for _ in range(50):
        ids = [world.add(SYSTEM + document(rng, 80), greedy(10, ignore_eos=True)) for _ in range(10)]
        world.run()
        assert used(world) == 0
        assert {world.finish(request_id).reason.type for request_id in ids} == {"length"}
    assert num_steps_of_one() == first


def test_2048_short_requests_through_a_tiny_memory() -> None:
    world = World(capacity=256, max_running_requests=256)
    rng = random.Random(2)
    ids = [world.add(document(rng, rng.randint(1, 8)), greedy(3, ignore_eos=True)) for _ in range(2048)]
    world.run()
    assert {world.finish(request_id).completion_tokens for request_id in ids} == {3}
    assert used(world) == 0


@pytest.mark.parametrize("turn", range(6))
def test_retries_of_one_long_prompt_are_served_though_half_of_them_are_aborted(turn: int) -> None:
    world = World(chunk_size=20, capacity=200)
    prompt = "the same long prompt that is sent again and again because it takes so long"
    ids = [world.add(prompt) for _ in range(6)]
    for _ in range(turn):
        world.step()
    world.abort(*ids[:3])
    world.run()  # fails when somebody waits and nothing runs
    for request_id in ids[3:]:
        assert world.answer(request_id) == solo(prompt.encode(), greedy())


@pytest.mark.parametrize("overlaps", [False, True])
def test_256_retracted_requests_find_their_own_prefixes_again(overlaps: bool) -> None:
    world = World(capacity=400, max_running_requests=64, conservativeness=0.0, overlaps=overlaps)
    prompts = [SYSTEM + str(number) for number in range(256)]
    ids = [world.add(prompt, greedy(20, **UNBOUNDED)) for prompt in prompts]
    world.run()
    assert world.stats().num_retractions > 20
    for request_id, prompt in zip(ids, prompts, strict=True):
        assert world.answer(request_id) == solo(prompt.encode(), greedy(20, **UNBOUNDED))


def test_50_at_once_for_two_places_half_of_them_aborted() -> None:
    world = World(max_running_requests=2)
    rng = random.Random(3)
    groups = []
    for number in range(50):
        leader = world.add(f"request {number}", greedy(5, ignore_eos=True))
        groups.append([leader])
        if number % 5 == 0:
            groups[-1] += [world.add(f"request {number}", greedy(5), leader=leader) for _ in range(3)]
    doomed = rng.sample(groups, 25)
    for group in doomed:
        world.step()  # World sees to it that there are never more than two running
        world.abort(*group)
    world.run()
    for number, group in enumerate(groups):
        if group not in doomed:
            assert world.answer(group[0]) == solo(f"request {number}".encode(), greedy(5, ignore_eos=True))
    assert used(world) == 0


@pytest.mark.parametrize("use_radix_cache", [True, False])
@pytest.mark.parametrize(("chunk_size", "page_size"), [(16, 16), (17, 16), (16, 1), (1, 1), (1000, 16)])
def test_a_prompt_just_longer_than_its_chunks_is_served_at_every_size(
    chunk_size: int, page_size: int, use_radix_cache: bool
) -> None:
    """1000 is the whole context: no chunks at all."""
    world = World(chunk_size=chunk_size, page_size=page_size, use_radix_cache=use_radix_cache)
    request_id = world.add("x" * 129)
    world.run()
    assert world.answer(request_id) == solo(b"x" * 129, greedy())


def test_1000_answers_of_one_token_are_computed_in_one_step_each() -> None:
    world = World()
    prompts = [str(number) for number in range(1000)]
    ids = [world.add(prompt, greedy(1)) for prompt in prompts]
    num_steps: Counter[int] = Counter()
    while not all(request_id in world.heard for request_id in ids):
        batch = world.step().batch
        assert batch is not None
        num_steps.update(row.request.id for row in batch.rows)
    assert num_steps == Counter(ids)
    for request_id, prompt in zip(ids, prompts, strict=True):
        assert world.answer(request_id) == solo(prompt.encode(), greedy(1))
