"""What the front sends on, what it survives, and how it ends."""

import asyncio
from collections.abc import Callable

import msgspec
import pytest

from managers.messages import (
    RequestsEnded,
    SchedulerLoad,
    TextBatch,
    unpack_token_ids,
)
from managers.tokenizer_manager import TokenizerManager
from srt.engine_client import (
    ChatPrompt,
    GenerateRequest,
    Prompt,
    TextPrompt,
    TokenPrompt,
)
from srt.errors import ContextLengthExceeded, InvalidRequest, RequestError, ServerNotReady
from srt.sampling.params import MAX_INT64, MIN_INT64, SamplingParams
from tests.fakes.tokenizer import VOCAB_SIZE, ByteTokenizer
from tests.managers.front import (
    ABORTED,
    CONTEXT_LENGTH,
    LENGTH,
    arriving,
    asked,
    collect,
    collect_text,
    last_word,
    new_world,
    text_batch,
    until,
    until_waiting,
)

pytestmark = pytest.mark.anyio


# What the scheduler is sent.


async def test_every_choice_of_every_prompt_travels_alone_and_follows_the_first_of_its_prompt() -> None:
    async with new_world() as world:
        request = await world.manager.generate(asked(TextPrompt("ab"), TokenPrompt([7, 8, 9]), n=2))
        ids = [message.request_id for message in world.requests]
        assert len(set(ids)) == 4
        assert [unpack_token_ids(message.input_ids) for message in world.requests] == [
            [97, 98],
            [97, 98],
            [7, 8, 9],
            [7, 8, 9],
        ]
        assert [message.group_leader for message in world.requests] == [None, ids[0], None, ids[2]]
        assert [message.sampling.n for message in world.requests] == [1, 1, 1, 1]
        assert [choice.index for choice in request.choices] == [0, 1, 2, 3]
        assert request.prompt_token_ids == [[97, 98], [7, 8, 9]]


async def test_priority_and_time_limit_travel_with_every_choice() -> None:
    async with new_world() as world:
        request = msgspec.structs.replace(asked(TextPrompt("ab"), n=2), priority=4, timeout_s=1.5)
        await world.manager.generate(request)
        assert [(message.priority, message.timeout_s) for message in world.requests] == [(4, 1.5)] * 2


async def test_the_choices_of_a_seeded_prompt_have_consecutive_seeds() -> None:
    async with new_world() as world:
        await world.manager.generate(asked(TextPrompt("a"), n=3, seed=MAX_INT64 - 1))
        seeds = [message.sampling.seed for message in world.requests]
        assert seeds == [MAX_INT64 - 1, MAX_INT64, MIN_INT64]


async def test_a_request_without_a_seed_is_given_one_of_its_own() -> None:
    async with new_world() as world:
        await world.start()
        await world.start()
        seeds = {message.sampling.seed for message in world.requests}
        assert len(seeds) == 2
        assert None not in seeds


async def test_without_max_new_tokens_the_rest_of_the_context_is_taken() -> None:
    async with new_world() as world:
        await world.manager.generate(asked(TextPrompt("12345"), max_new_tokens=None))
        assert world.requests[0].sampling.max_new_tokens == CONTEXT_LENGTH - 5


async def test_a_request_that_fills_the_context_exactly_is_taken() -> None:
    async with new_world() as world:
        await world.manager.generate(asked(TextPrompt("12345"), max_new_tokens=CONTEXT_LENGTH - 5))
        assert len(world.requests) == 1


@pytest.mark.parametrize(
    ("prompt", "max_new_tokens", "error"),
    [
        (TextPrompt("x" * CONTEXT_LENGTH), None, ContextLengthExceeded),
        (TextPrompt("x" * CONTEXT_LENGTH), 0, ContextLengthExceeded),
        (TextPrompt("12345"), CONTEXT_LENGTH - 4, ContextLengthExceeded),
        (TextPrompt(""), 8, InvalidRequest),
        (TokenPrompt([]), 8, InvalidRequest),
        (TokenPrompt([1, VOCAB_SIZE]), 8, InvalidRequest),
        (TokenPrompt([-1]), 8, InvalidRequest),
        (TokenPrompt([2**70]), 8, InvalidRequest),
    ],
)
async def test_a_prompt_that_cannot_be_served_is_refused_with_400_and_dispatches_nothing(
    prompt: Prompt, max_new_tokens: int | None, error: type[RequestError]
) -> None:
    async with new_world() as world:
        with pytest.raises(error) as refusal:
            await world.manager.generate(asked(TextPrompt("good"), prompt, max_new_tokens=max_new_tokens))
        assert refusal.value.status == 400
        assert world.sent == []


async def test_a_refusal_for_length_names_the_limit() -> None:
    async with new_world() as world:
        with pytest.raises(ContextLengthExceeded, match=str(CONTEXT_LENGTH)):
            await world.start("x" * CONTEXT_LENGTH)


async def test_messages_go_through_the_chat_template() -> None:
    async with new_world() as world:
        prompt = ChatPrompt(messages=[{"role": "u", "content": "hey"}])
        await world.manager.generate(asked(prompt))
        assert (
            ByteTokenizer().decode(unpack_token_ids(world.requests[0].input_ids), skip_special_tokens=False)
            == "<|im_start|>u\nhey<|im_end|>\n<|im_start|>assistant\n"
        )


async def test_settings_that_name_tokens_outside_the_vocabulary_are_refused() -> None:
    async with new_world() as world:
        request = GenerateRequest(
            prompts=[TextPrompt("a")],
            sampling=[SamplingParams(logit_bias=((VOCAB_SIZE, 1.0),))],
            stream=False,
        )
        with pytest.raises(InvalidRequest):
            await world.manager.generate(request)


# Aborts while a prompt is being tokenised.


@pytest.mark.parametrize("abort", [lambda manager: manager.abort("a"), lambda manager: manager.abort_all()])
async def test_an_abort_while_tokenising_ends_the_request_as_while_waiting_and_dispatches_nothing(
    abort: Callable[[TokenizerManager], None],
) -> None:
    async with new_world() as world:
        arrival = await arriving(world, rid="a")
        abort(world.manager)
        request = await arrival
        assert world.sent == []
        assert world.manager.num_open == 0
        chunks = await collect(request)
        assert [(chunk.index, chunk.finish, chunk.prompt_tokens) for chunk in chunks] == [
            (0, ABORTED, 0),
            (1, ABORTED, 0),
        ]
        assert [(chunk.text, chunk.token_ids) for chunk in chunks] == [("", []), ("", [])]
        # The name is free for the next one.
        await world.start(rid="a")
        assert len(world.requests) == 1


async def test_an_abort_before_a_request_is_complete_ends_it() -> None:
    begun, never = asyncio.Event(), asyncio.Event()

    async def complete(request: GenerateRequest) -> GenerateRequest:
        begun.set()
        await never.wait()
        return request

    async with new_world() as world:
        request = msgspec.structs.replace(asked(TextPrompt("hello"), rid="a"), complete=complete)
        arrival = asyncio.create_task(world.manager.generate(request))
        await begun.wait()
        world.manager.abort("a")
        assert [chunk.finish for chunk in await collect(await arrival)] == [ABORTED]
        assert world.sent == []


async def test_an_abort_while_tokenising_means_that_rid_only() -> None:
    async with new_world() as world:
        arrival = await arriving(world, rid="ab")
        world.manager.abort("a")
        await arrival
        assert len(world.requests) == 2


# Surviving.


async def test_a_message_that_makes_no_sense_costs_nobody_else_anything(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with new_world() as world:
        request = await world.start()
        request_id = world.requests[0].request_id
        nonsense = TextBatch(
            request_ids=[request_id], texts=[], num_tokens=[1], token_ids=[], cached_tokens=[]
        )
        await world.say(nonsense, text_batch({request_id: "fine"}, ends=[last_word(request_id)]))
        assert await collect_text(request) == "fine"
        assert "could not be handled" in caplog.text


async def test_text_for_an_unknown_request_is_ignored() -> None:
    async with new_world() as world:
        request = await world.start()
        request_id = world.requests[0].request_id
        await world.say(
            text_batch({999: "lost", request_id: "mine"}, ends=[last_word(999), last_word(request_id)])
        )
        assert await collect_text(request) == "mine"


async def test_when_a_process_is_lost_every_caller_gets_an_error_and_nobody_new_is_taken() -> None:
    async with new_world() as world:
        request = await world.start()
        caller = asyncio.create_task(collect(request))
        await until_waiting(request)
        world.manager.fail_all("scheduler_TP0 has died")
        with pytest.raises(ServerNotReady, match="scheduler_TP0 has died"):
            await caller
        with pytest.raises(ServerNotReady):
            await world.start()
        assert not world.manager.health().ok
        assert world.manager.num_open == 0


async def test_when_a_process_is_lost_nobody_waits_for_a_reply() -> None:
    async with new_world() as world:
        flush = asyncio.create_task(world.manager.flush_cache())
        await until(lambda: world.sent)
        world.manager.fail_all("gone")
        with pytest.raises(ServerNotReady):
            await flush


# Draining.


async def test_draining_takes_nothing_new_and_lets_what_runs_finish() -> None:
    async with new_world() as world:
        request = await world.start()
        drain = asyncio.create_task(world.manager.drain(60.0))
        await until(lambda: not world.manager.health().ok)
        with pytest.raises(ServerNotReady):
            await world.start()
        await world.text(world.requests[0].request_id, "done", finish=LENGTH)
        await drain
        assert await collect_text(request) == "done"
        assert world.aborted_ids == []


async def test_draining_an_idle_server_ends_at_once() -> None:
    async with new_world() as world:
        await world.manager.drain(3600.0)


async def test_whoever_does_not_finish_in_time_is_cut_off() -> None:
    async with new_world() as world:
        request = await world.start()
        request_id = world.requests[0].request_id
        drain = asyncio.create_task(world.manager.drain(0.0))
        await until(lambda: world.aborted_ids)
        await world.text(request_id, "a", finish=ABORTED)
        await drain
        assert [chunk.finish for chunk in await collect(request)] == [ABORTED]


async def test_a_second_signal_cuts_the_waiting_short() -> None:
    async with new_world() as world:
        await world.start()
        hurry = asyncio.Event()
        drain = asyncio.create_task(world.manager.drain(3600.0, hurry=hurry))
        hurry.set()
        await until(lambda: world.aborted_ids)
        await world.text(world.requests[0].request_id, "", finish=ABORTED)
        await drain


LOAD = SchedulerLoad(
    dp_rank=0,
    num_running=2,
    num_waiting=1,
    num_waiting_uncached_tokens=10,
    num_used_tokens=30,
    num_cached_tokens=5,
    max_total_num_tokens=100,
    max_running_requests=8,
    gen_throughput=12.5,
    cache_hit_rate=0.5,
    turn=3,
)


async def test_the_load_is_the_latest_one_with_its_age() -> None:
    async with new_world() as world:
        await world.say(LOAD)
        world.now += 2.0
        (load,) = world.manager.loads()
        assert (load.num_running_reqs, load.num_used_tokens, load.age_s) == (2, 30, 2.0)


async def test_health_lasts_as_long_as_the_scheduler_gives_signs_of_life() -> None:
    async with new_world() as world:
        world.now += 59.0
        await world.say(LOAD)
        world.now += 59.0
        assert world.manager.health().ok
        world.now += 2.0
        assert not world.manager.health().ok


async def test_a_process_that_is_silent_is_named_though_others_speak() -> None:
    async with new_world() as world:
        world.pulse.beat()
        world.now = (world.pulse.last_beat or 0.0) + 61.0
        await world.say(LOAD)
        health = world.manager.health()
        assert (health.ok, health.is_alive) == (False, False)
        assert health.detail == "no sign of life from detokenizer for 61 s"
        world.pulse.rest()
        assert world.manager.health().ok


async def test_a_server_that_drains_takes_nothing_new_but_lives() -> None:
    async with new_world() as world:
        await world.manager.drain(0.0)
        health = world.manager.health()
        assert (health.ok, health.is_alive) == (False, True)


async def test_a_wish_for_a_replica_travels_with_every_choice() -> None:
    async with new_world(dp_size=2) as world:
        await world.manager.generate(msgspec.structs.replace(asked(TextPrompt("a"), n=2), dp_rank=1))
        assert [message.dp_rank for message in world.requests] == [1, 1]


async def test_a_wish_for_a_replica_that_is_not_there_dispatches_nothing() -> None:
    async with new_world(dp_size=2) as world:
        world.manager.lose_replica(1, "it has died")
        for dp_rank, error in ((2, InvalidRequest), (-1, InvalidRequest), (1, ServerNotReady)):
            with pytest.raises(error):
                await world.manager.generate(msgspec.structs.replace(asked(TextPrompt("a")), dp_rank=dp_rank))
        assert world.sent == []


async def test_with_a_replica_lost_the_server_goes_on_and_says_so() -> None:
    async with new_world(dp_size=2) as world:
        request = await world.start()
        world.manager.lose_replica(1, "scheduler_DP1_TP0 has died")
        health = world.manager.health()
        assert (health.ok, health.detail) == (True, "scheduler_DP1_TP0 has died")
        await world.text(world.requests[0].request_id, "fine", finish=LENGTH)
        assert await collect_text(request) == "fine"
        await world.start()
        assert len(world.requests) == 2


async def test_a_controller_is_told_who_has_ended() -> None:
    async with new_world(dp_size=2) as world:
        await world.start(n=2)
        first, second = [message.request_id for message in world.requests]
        await world.say(text_batch({first: "a"}))
        assert world.notes == []
        await world.say(text_batch({second: "a"}, ends=[last_word(first), last_word(second)]))
        assert world.notes == [RequestsEnded(request_ids=[first, second])]


async def test_text_and_ids_are_turned_into_each_other() -> None:
    async with new_world() as world:
        assert await world.manager.tokenize(TextPrompt("hé")) == [104, 195, 169]
        assert await world.manager.detokenize([104, 195, 169]) == "hé"
        with pytest.raises(InvalidRequest):
            await world.manager.detokenize([VOCAB_SIZE])


async def test_tokenizing_has_no_limit_and_may_be_empty() -> None:
    async with new_world() as world:
        assert await world.manager.tokenize(TextPrompt("")) == []
        assert len(await world.manager.tokenize(TextPrompt("x" * 1000))) == 1000
