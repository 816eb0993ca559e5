"""Log-probabilities through the scheduler; test_any_schedule.py and test_lockstep_processes.py do it at random."""

import pytest

from srt.engine_client import LogprobOptions
from tests.managers.scheduler.schedules import check_logprobs
from tests.managers.scheduler.solo import LOGPROB_OF_OTHERS, solo
from tests.managers.scheduler.world import World, greedy

PROMPT = list(b"abcdefghabcdefghhgfedcbahgfedcbaabcdefgh")
WHOLE = LogprobOptions(prompt_start=0, num_top=3, token_ids=(97, 200))


@pytest.mark.parametrize("overlaps", [False, True])
@pytest.mark.parametrize("chunk_size", [1, 7, 16, 1000])
@pytest.mark.parametrize("page_size", [1, 4])
def test_a_prompt_in_chunks_is_told_whole_and_first(chunk_size: int, page_size: int, overlaps: bool) -> None:
    world = World(chunk_size=chunk_size, page_size=page_size, overlaps=overlaps)
    told = [world.add(PROMPT, greedy(n), logprobs=WHOLE) for n in (0, 1, 9)]
    other = world.add(PROMPT, greedy(9))
    world.run()
    for request_id in told:
        heard = world.heard[request_id]
        assert heard.prompt_logprobs is not None
        assert heard.prompt_logprobs.token_ids == PROMPT
        check_logprobs(heard, PROMPT, WHOLE)
    assert world.heard[other].logprobs is None


@pytest.mark.parametrize(
    ("page_size", "start", "num_cached"), [(1, 0, 0), (1, 1, 0), (1, 21, 20), (8, 21, 16), (1, 40, 39)]
)
def test_what_must_be_computed_again_is_not_taken_from_the_cache(
    page_size: int, start: int, num_cached: int
) -> None:
    world = World(page_size=page_size)
    world.add(PROMPT)
    world.run()
    options = LogprobOptions(prompt_start=start, num_top=2)
    request_id = world.add(PROMPT, greedy(3), logprobs=options)
    world.run()
    check_logprobs(world.heard[request_id], PROMPT, options)
    assert world.finish(request_id).cached_tokens == num_cached


def test_what_it_computed_is_shared_as_any_other() -> None:
    world = World()
    world.add(PROMPT, logprobs=WHOLE)
    world.run()
    request_id = world.add(PROMPT)
    world.run()
    assert world.finish(request_id).cached_tokens == len(PROMPT) - 1


def test_several_answers_to_one_prompt_are_each_told_it_and_find_what_they_may() -> None:
    world = World()
    options = LogprobOptions(prompt_start=33)
    leader = world.add(PROMPT, greedy(4), logprobs=options)
    followers = [world.add(PROMPT, greedy(4), leader=leader, logprobs=options) for _ in range(2)]
    world.run()
    for request_id in (leader, *followers):
        check_logprobs(world.heard[request_id], PROMPT, options)
        assert world.heard[request_id].prompt_logprobs is not None


def test_retracted_requests_lose_no_logprob_and_get_none_twice() -> None:
    world = World(capacity=100, conservativeness=0.0, max_running_requests=6)
    sampling = greedy(40, ignore_eos=True, stop=("never",))
    prompts = [PROMPT[i : i + 15] for i in range(6)]
    ids = [world.add(prompt, sampling, logprobs=WHOLE) for prompt in prompts]
    world.run()
    assert world.stats().num_retractions > 0
    assert (
        sum(world.finish(request_id).num_retractions for request_id in ids) == world.stats().num_retractions
    )
    for request_id, prompt in zip(ids, prompts, strict=True):
        assert world.answer(request_id) == solo(prompt, sampling)
        check_logprobs(world.heard[request_id], prompt, WHOLE)


def test_one_that_leaves_in_the_middle_of_a_batch_moves_nobody_elses_values() -> None:
    world = World(chunk_size=1000, overlaps=True)
    prompts = [PROMPT[i:] for i in range(4)]
    ids = [world.add(prompt, greedy(6), logprobs=WHOLE) for prompt in prompts]
    world.step()  # in flight
    world.abort(ids[1])
    world.run()
    assert world.heard[ids[1]].prompt_logprobs is None
    for request_id, prompt in zip(ids, prompts, strict=True):
        check_logprobs(world.heard[request_id], prompt, WHOLE)


def test_values_are_those_before_penalties_bias_and_bans() -> None:
    world = World()
    request_id = world.add(PROMPT, greedy(1, logit_bias=((200, 100.0),)), logprobs=LogprobOptions(num_top=1))
    world.run()
    told = world.heard[request_id].logprobs
    assert told is not None
    assert told.token_ids == [200]
    assert told.logprobs == [LOGPROB_OF_OTHERS]
    assert told.top[0][0][0] != 200


def test_an_unstreamed_answer_is_told_at_its_end() -> None:
    world = World()
    request_id = world.add(PROMPT, greedy(6), stream=False, logprobs=WHOLE)
    world.run()
    check_logprobs(world.heard[request_id], PROMPT, WHOLE)
    assert world.heard[request_id].pieces == [len(world.answer(request_id).token_ids)]


def test_only_the_rows_that_are_wanted_reach_the_head() -> None:
    world = World()
    world.runner.keeps_batches = True
    world.add(PROMPT, greedy(2), logprobs=LogprobOptions(prompt_start=36))
    world.add(PROMPT[::-1], greedy(2))
    world.run()
    read = [b.also_reads.rows.tolist() for b in world.runner.batches if b.also_reads is not None]
    assert read == [[35, 36, 37, 38]]


@pytest.mark.parametrize(
    "options",
    [
        LogprobOptions(prompt_start=41),
        LogprobOptions(prompt_start=-1),
        LogprobOptions(num_top=129),
        LogprobOptions(token_ids=(100_000,)),
        LogprobOptions(token_ids=(-1,)),
    ],
)
def test_what_cannot_be_told_is_refused(options: LogprobOptions) -> None:
    world = World()
    request_id = world.add(PROMPT, logprobs=options)
    world.run()
    assert world.finish(request_id).reason.status_code == 400


def test_a_rank_that_does_not_talk_decides_the_same() -> None:
    talking, silent = World(chunk_size=7, overlaps=True), World(chunk_size=7, overlaps=True, is_talking=False)
    for world in (talking, silent):
        for n in (0, 3):
            world.add(PROMPT, greedy(n), logprobs=WHOLE)
    digests = [[world.step().digest for _ in range(20)] for world in (talking, silent)]
    assert digests[0] == digests[1]
    assert silent.scheduler.is_idle
