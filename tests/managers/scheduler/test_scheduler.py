"""One scheduler, turn by turn: aborts at every stage, retraction, limits, admin requests, load figures."""

import numpy as np
import pytest

from managers.messages import (
    FlushCache,
    FlushCacheReply,
    GetState,
    GetStateReply,
    TokenizedRequest,
    pack_token_ids,
)
from tests.fakes.model_runner import choices
from tests.fakes.tokenizer import VOCAB_SIZE
from tests.managers.scheduler.solo import Answer, solo
from tests.managers.scheduler.world import World, greedy

LONG = greedy(100, ignore_eos=True)
# Could end any time, for all that the scheduler knows: it may be too hopeful about these.
UNBOUNDED = {"ignore_eos": True, "stop": ("never",)}


def used(world: World) -> int:
    return world.stats().memory.num_used


def check_aborted(world: World, request_id: int) -> None:
    """Ended as an abort that is no error, exactly once (World checks), with nothing left behind."""
    reason = world.finish(request_id).reason
    assert (reason.type, reason.status_code) == ("abort", 200)
    assert used(world) == 0
    assert world.scheduler.is_idle


def test_abort_before_the_first_step() -> None:
    world = World()
    request_id = world.add("hello")
    world.abort(request_id)
    world.step()
    check_aborted(world, request_id)
    assert world.heard[request_id].opened is None


def test_abort_while_waiting_leaves_the_running_one_alone() -> None:
    world = World(max_running_requests=1)
    running, waiting = world.add("first"), world.add("second")
    world.step()
    world.abort(waiting)
    world.step()
    assert world.finish(waiting).reason.type == "abort"
    world.run()
    assert world.answer(running) == solo(b"first", greedy())


def test_abort_between_chunks_gives_every_slot_back() -> None:
    world = World(chunk_size=4)
    request_id = world.add("a prompt of several chunks")
    world.step()
    world.step()
    assert used(world) == 8
    world.abort(request_id)
    world.step()
    check_aborted(world, request_id)


def test_abort_while_running_gives_every_slot_back() -> None:
    world = World(page_size=4)
    request_id = world.add("hello", LONG)
    for _ in range(5):
        world.step()
    world.abort(request_id)
    world.step()
    check_aborted(world, request_id)
    assert len(world.heard[request_id].token_ids) == 5


def test_abort_of_a_retracted_request() -> None:
    world = World(capacity=64, conservativeness=0.1)
    ids = [world.add(prompt * 4, greedy(50, **UNBOUNDED)) for prompt in "abc"]
    while world.stats().num_retractions == 0:
        world.step()
    assert world.stats().num_waiting > 0
    world.abort(*ids)
    world.step()
    for request_id in ids:
        check_aborted(world, request_id)


def test_abort_of_an_unknown_or_ended_request_is_no_error() -> None:
    world = World()
    request_id = world.add("hello", greedy(1))
    world.step()
    world.abort(request_id, 999)
    world.step()
    assert world.answer(request_id) == solo(b"hello", greedy(1))


def test_a_message_may_abort_many_and_one_twice() -> None:
    world = World()
    ids = [world.add("hello", LONG) for _ in range(3)]
    world.step()
    world.abort(*ids, ids[0])
    world.step()
    for request_id in ids:
        check_aborted(world, request_id)


@pytest.mark.parametrize("page_size", [1, 4, 16])
def test_more_than_the_memory_holds_all_finish_with_their_solo_text(page_size: int) -> None:
    world = World(capacity=160, page_size=page_size, max_running_requests=16, conservativeness=0.1)
    sampling = greedy(80, **UNBOUNDED)
    prompts = [bytes([97 + i]) * 20 for i in range(12)]
    ids = [world.add(list(prompt), sampling) for prompt in prompts]
    world.run()
    assert world.stats().num_retractions > 0
    for request_id, prompt in zip(ids, prompts, strict=True):
        assert world.answer(request_id) == solo(prompt, sampling)


def test_a_request_that_fills_the_whole_memory_alone_finishes() -> None:
    world = World(capacity=64, page_size=4, chunk_size=8)
    sampling = greedy(24, ignore_eos=True)
    request_id = world.add("x" * 40, sampling)
    world.run()
    assert world.answer(request_id) == solo(b"x" * 40, sampling)


def test_without_new_tokens_the_prompt_is_computed_and_that_is_all() -> None:
    world = World()
    request_id = world.add("hello", greedy(0))
    world.step()
    assert world.answer(request_id) == Answer([], "length")
    assert world.stats().memory.num_cached == 5


def test_one_token_takes_one_step() -> None:
    world = World()
    request_id = world.add("hello", greedy(1))
    world.step()
    assert world.answer(request_id).token_ids == [choices(list(b"hello"))[0]]
    assert world.scheduler.is_idle


def test_followers_share_the_leaders_prompt() -> None:
    world = World(page_size=4)
    leader = world.add("x" * 41)
    followers = [world.add("x" * 41, leader=leader) for _ in range(3)]
    world.run()
    assert [world.finish(follower).cached_tokens for follower in followers] == [40, 40, 40]
    for request_id in (leader, *followers):
        assert world.answer(request_id) == solo(b"x" * 41, greedy())


def test_a_repeated_prompt_reports_all_but_its_last_token_as_cached() -> None:
    world = World()
    world.add("hello world")
    world.run()
    again = world.add("hello world")
    world.run()
    assert world.finish(again).cached_tokens == 10


def test_namespaces_share_nothing() -> None:
    world = World()
    world.add("hello world", namespace=("a",))
    world.run()
    other = world.add("hello world", namespace=("b",))
    world.run()
    assert world.finish(other).cached_tokens == 0


def test_a_full_queue_refuses_with_503_and_serves_the_rest() -> None:
    world = World(max_running_requests=1, max_queued_requests=2)
    ids = [world.add("hello") for _ in range(5)]
    world.run()
    statuses = [world.finish(request_id).reason.status_code for request_id in ids]
    assert statuses == [200, 200, 200, 503, 503]


@pytest.mark.parametrize(
    ("token_ids", "max_new_tokens"),
    [([], 1), ([-1], 1), ([VOCAB_SIZE], 1), ([1] * 256, 0), ([1] * 10, 247), ([1] * 10, 2**62)],
)
def test_a_request_that_cannot_be_served_is_refused_with_400(
    token_ids: list[int], max_new_tokens: int
) -> None:
    world = World(capacity=256)
    refused, served = world.add(token_ids, greedy(max_new_tokens)), world.add("hello")
    world.run()
    assert world.finish(refused).reason.status_code == 400
    assert world.answer(served) == solo(b"hello", greedy())


def test_half_a_token_id_is_refused() -> None:
    world = World()
    world.send(TokenizedRequest(request_id=7, input_ids=b"abc", sampling=greedy(), stream=False))
    world.step()
    assert world.finish(7).reason.status_code == 400


def test_a_second_request_with_a_living_id_is_ignored() -> None:
    world = World()
    request_id = world.add("hello", LONG)
    world.step()
    again = TokenizedRequest(
        request_id=request_id, input_ids=pack_token_ids([1]), sampling=greedy(), stream=False
    )
    world.send(again)
    world.run()
    assert world.answer(request_id) == solo(b"hello", LONG)


def test_no_limit_of_its_own_means_up_to_the_context() -> None:
    world = World(context_length=30)
    request_id = world.add("hello", greedy(None, ignore_eos=True))
    world.run()
    assert world.answer(request_id) == solo(b"hello", greedy(25, ignore_eos=True))


def test_a_token_that_is_none_ends_its_request_only() -> None:
    world = World()
    sampler = world.scheduler._sampler

    class BrokenSampler:
        def sample(self, logits, rows):  # type: ignore[no-untyped-def]
            token_ids = sampler.sample(logits, rows)
            return np.where([row.position == 7 and row.params.n == 2 for row in rows], -1, token_ids)

    world.scheduler._sampler = BrokenSampler()
    # A bias, so that there are logits to sample from.
    broken = world.add("hello", greedy(8, n=2, logit_bias=((0, -1.0),)))
    sound = world.add("hello", greedy(8))
    world.run()
    assert (world.finish(broken).reason.status_code, world.finish(broken).completion_tokens) == (500, 2)
    assert world.answer(sound) == solo(b"hello", greedy(8))


def test_a_stream_gets_its_first_token_at_once_and_then_in_portions() -> None:
    world = World(stream_interval=3)
    streamed = world.add("hello", greedy(8, ignore_eos=True))
    in_its_own = world.add("hello", greedy(8, ignore_eos=True, stream_interval=5))
    whole = world.add("hello", greedy(8, ignore_eos=True), stream=False)
    world.run()
    assert world.heard[streamed].pieces == [1, 3, 3, 1]
    assert world.heard[in_its_own].pieces == [1, 5, 2]
    assert world.heard[whole].pieces == [8]


def test_nothing_is_said_before_the_first_token() -> None:
    world = World(chunk_size=4)
    request_id = world.add("a prompt of several chunks")
    world.step()
    assert request_id not in world.heard


def test_decode_goes_on_beside_a_long_prefill() -> None:
    world = World(chunk_size=8)
    streaming = world.add("hello", greedy(20, ignore_eos=True))
    world.step()
    world.add("z" * 50)
    for expected in range(2, 8):
        world.step()
        assert len(world.heard[streaming].token_ids) == expected


def test_a_flush_while_busy_is_refused_and_afterwards_done() -> None:
    world = World()
    world.add("hello")
    world.step()
    world.send(FlushCache(control_id=1))
    world.run()
    assert world.stats().memory.num_cached > 0
    world.send(FlushCache(control_id=2))
    world.step()
    first, second = world.replies
    assert isinstance(first, FlushCacheReply)
    assert isinstance(second, FlushCacheReply)
    assert (first.control_id, first.done, second.control_id, second.done) == (1, False, 2, True)
    assert "1 requests are running" in first.reason
    assert world.stats().memory.num_free == 256


def test_a_flush_right_after_an_abort_is_done() -> None:
    world = World()
    request_id = world.add("hello", LONG)
    world.step()
    world.abort(request_id)
    world.send(FlushCache(control_id=1))
    world.step()
    assert world.replies == [FlushCacheReply(control_id=1, done=True)]


def test_the_state_names_facts_and_figures() -> None:
    world = World()
    world.send(GetState(control_id=5))
    world.step()
    [reply] = world.replies
    assert isinstance(reply, GetStateReply)
    assert (reply.control_id, reply.state["num_running_reqs"], reply.state["turn"]) == (5, 0, 1)


def test_load_is_reported_when_counts_change_at_most_ten_times_a_second() -> None:
    world = World()
    world.step()
    world.clock.advance(0.2)
    world.add("hello", LONG)
    world.step()
    assert [load.num_running for load in world.loads] == [0, 1]
    world.add("world", LONG)
    world.step()
    assert len(world.loads) == 2
    world.clock.advance(0.1)
    world.step()
    assert world.loads[-1].num_running == 2


def test_load_is_reported_as_soon_as_the_scheduler_is_idle_and_every_second() -> None:
    world = World()
    world.add("hello", greedy(2, ignore_eos=True))
    world.step()
    world.step()
    assert (world.loads[-1].num_running, world.loads[-1].num_used_tokens) == (0, 0)
    num_loads = len(world.loads)
    world.step()
    assert len(world.loads) == num_loads
    world.clock.advance(1.0)
    world.step()
    assert len(world.loads) == num_loads + 1


def test_waiting_tokens_leave_out_what_is_cached() -> None:
    world = World(max_running_requests=1)
    world.add("hello world", LONG)
    world.step()
    world.add("hello world and more")
    world.step()
    assert world.stats().num_waiting_uncached_tokens == len(" and more")


def test_a_lost_slot_is_found_when_idle_and_is_free_again() -> None:
    world = World()
    world.check_books = lambda: None  # type: ignore[method-assign]
    world.scheduler._memory.books.allocator.extend(0, 0, 3)
    request_id = world.add("hello")
    world.run()
    assert world.stats().num_ledger_repairs == 1
    assert world.stats().memory.num_used == 0
    world.add("hello")
    world.run()
    assert world.answer(request_id) == world.answer(request_id + 1)
    assert world.stats().num_ledger_repairs == 1


def test_when_even_a_lone_request_finds_no_room_it_ends_and_the_next_is_served() -> None:
    world = World(capacity=64)
    world.check_books = lambda: None  # type: ignore[method-assign]
    request_id = world.add("x" * 30, greedy(30, ignore_eos=True))
    world.step()
    world.scheduler._memory.books.allocator.extend(0, 0, 30)  # lost: our bug
    world.run()
    assert world.finish(request_id).reason.status_code == 500
    served = world.add("x" * 30, greedy(30, ignore_eos=True))
    world.run()
    assert world.answer(served) == solo(b"x" * 30, greedy(30, ignore_eos=True))
