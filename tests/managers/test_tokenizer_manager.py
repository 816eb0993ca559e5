"""What the front promises its callers, with a scripted engine behind it."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import pytest

from managers.messages import (
    AbortRequest,
    FlushCache,
    FlushCacheReply,
    GetState,
    GetStateReply,
    RequestFinished,
    SchedulerInput,
    SchedulerLoad,
    Shutdown,
    TextBatch,
    TokenizedRequest,
    TokenizerManagerInput,
    unpack_token_ids,
)
from managers.request_state import RequestState
from managers.tokenizer_manager import TokenizerManager
from managers.tokenizer_pool import TokenizerPool
from srt.engine_client import (
    ChatPrompt,
    FinishReason,
    GenerateChunk,
    GenerateRequest,
    ModelInfo,
    Prompt,
    TextPrompt,
    TokenPrompt,
)
from srt.errors import ContextLengthExceeded, InvalidRequest, RequestError, RequestFailed, ServerNotReady
from srt.sampling.params import MAX_INT64, MIN_INT64, SamplingParams
from tests.fakes.tokenizer import VOCAB_SIZE, ByteTokenizer

CONTEXT_LENGTH = 40
LENGTH = FinishReason(type="length")
ABORTED = FinishReason(type="abort", message="aborted")


class World:
    """A TokenizerManager whose scheduler is the test: it reads `sent` and answers with `say`."""

    def __init__(self) -> None:
        self.sent: list[SchedulerInput] = []
        self.now = 100.0
        self._inbox: asyncio.Queue[list[TokenizerManagerInput]] = asyncio.Queue()
        self._num_handled = 0
        pool = TokenizerPool(ByteTokenizer(), vocab_size=VOCAB_SIZE)
        self.manager = TokenizerManager(
            model_info=ModelInfo(
                model_path="m",
                tokenizer_path="m",
                served_model_name="m",
                model_type="llama",
                architecture="L",
                context_length=CONTEXT_LENGTH,
                vocab_size=VOCAB_SIZE,
                has_chat_template=True,
            ),
            pool=pool,
            sender=self,
            receiver=self,
            watchdog_timeout_s=60.0,
            clock=lambda: self.now,
        )

    def send(self, message: SchedulerInput) -> None:
        self.sent.append(message)

    async def receive(self) -> list[TokenizerManagerInput]:
        if self._num_handled:
            self._inbox.task_done()
        self._num_handled += 1
        return await self._inbox.get()

    async def say(self, *messages: TokenizerManagerInput) -> None:
        """These arrive, together, and are handled."""
        self._inbox.put_nowait(list(messages))
        await self._inbox.join()

    async def text(self, request_id: int, text: str, *, finish: FinishReason | None = None) -> None:
        await self.say(
            text_batch({request_id: text}, ends=[] if finish is None else [last_word(request_id, finish)])
        )

    @property
    def requests(self) -> list[TokenizedRequest]:
        return [message for message in self.sent if isinstance(message, TokenizedRequest)]

    @property
    def aborted_ids(self) -> list[int]:
        return [i for message in self.sent if isinstance(message, AbortRequest) for i in message.request_ids]

    async def start(self, prompt: str = "hello", *, rid: str | None = None, n: int = 1) -> RequestState:
        return await self.manager.generate(asked(TextPrompt(prompt), rid=rid, n=n))


@asynccontextmanager
async def new_world() -> AsyncIterator[World]:
    world = World()
    receiving = asyncio.create_task(world.manager.receive_forever())
    try:
        yield world
    finally:
        receiving.cancel()
        world.manager.close()


def asked(
    *prompts: Prompt,
    rid: str | None = None,
    n: int = 1,
    seed: int | None = None,
    max_new_tokens: int | None = 8,
) -> GenerateRequest:
    sampling = SamplingParams(n=n, seed=seed, max_new_tokens=max_new_tokens)
    return GenerateRequest(prompts=prompts, sampling=[sampling] * len(prompts), stream=True, rid=rid)


def last_word(request_id: int, reason: FinishReason = LENGTH) -> RequestFinished:
    return RequestFinished(
        request_id=request_id, reason=reason, prompt_tokens=5, completion_tokens=2, cached_tokens=3
    )


def text_batch(texts: dict[int, str], *, ends: Sequence[RequestFinished] = ()) -> TextBatch:
    """Each character is one token, whose id is its code point."""
    return TextBatch(
        request_ids=list(texts),
        texts=list(texts.values()),
        num_tokens=[len(text) for text in texts.values()],
        token_ids=[ord(character) for text in texts.values() for character in text],
        cached_tokens=[3] * len(texts),
        finished=list(ends),
    )


async def collect(request: RequestState) -> list[GenerateChunk]:
    return [chunk async for chunks in request for chunk in chunks]


async def collect_text(request: RequestState) -> str:
    return "".join(chunk.text for chunk in await collect(request))


async def until(condition: Callable[[], object]) -> None:
    """Let the other tasks run until something holds."""
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110 (there is no event for it, and none is needed in the product)
            await asyncio.sleep(0)


async def until_waiting(request: RequestState) -> None:
    """Let the caller run until it waits for what comes next."""
    await until(lambda: request._waiter is not None)


pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


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


# What the caller gets.


async def test_text_reaches_its_caller_and_the_last_chunk_says_why_it_ended() -> None:
    async with new_world() as world:
        request = await world.start()
        (first,) = world.requests
        await world.text(first.request_id, "ab")
        assert await anext(request) == [
            GenerateChunk(
                index=0, text="ab", token_ids=[97, 98], prompt_tokens=5, completion_tokens=2, cached_tokens=3
            )
        ]
        await world.text(first.request_id, "c", finish=LENGTH)
        chunks = await collect(request)
        assert [(chunk.text, chunk.completion_tokens, chunk.finish) for chunk in chunks] == [("c", 3, LENGTH)]


async def test_what_a_slow_caller_has_not_taken_arrives_as_one_chunk_a_choice() -> None:
    async with new_world() as world:
        request = await world.start(n=2)
        first, second = (message.request_id for message in world.requests)
        for character in "abc":
            await world.say(text_batch({first: character, second: character.upper()}))
        chunks = await anext(request)
        assert [(chunk.index, chunk.text, chunk.token_ids) for chunk in chunks] == [
            (0, "abc", [97, 98, 99]),
            (1, "ABC", [65, 66, 67]),
        ]


async def test_a_request_ends_with_its_last_choice() -> None:
    async with new_world() as world:
        request = await world.start(n=2)
        first, second = (message.request_id for message in world.requests)
        await world.text(first, "a", finish=LENGTH)
        await anext(request)
        rest = asyncio.create_task(collect_text(request))
        await until_waiting(request)
        assert not rest.done()
        await world.text(second, "b", finish=LENGTH)
        assert await rest == "b"


async def test_two_requests_with_one_rid_keep_their_texts_apart() -> None:
    async with new_world() as world:
        one, two = await world.start(rid="same"), await world.start(rid="same")
        first, second = (message.request_id for message in world.requests)
        await world.text(second, "two", finish=LENGTH)
        await world.text(first, "one", finish=LENGTH)
        assert (await collect_text(one), await collect_text(two)) == ("one", "two")


async def test_a_request_without_a_rid_gets_a_new_one() -> None:
    async with new_world() as world:
        assert (await world.start()).request_id != (await world.start()).request_id


async def test_a_refusal_by_the_scheduler_is_the_response_when_nothing_was_delivered() -> None:
    async with new_world() as world:
        request = await world.start()
        refusal = FinishReason(type="abort", message="queue full", status_code=503)
        await world.text(world.requests[0].request_id, "", finish=refusal)
        with pytest.raises(RequestFailed, match="queue full") as error:
            await anext(request)
        assert error.value.status == 503


async def test_an_error_in_mid_stream_comes_after_the_text_before_it() -> None:
    async with new_world() as world:
        request = await world.start()
        request_id = world.requests[0].request_id
        await world.text(request_id, "a")
        await anext(request)
        await world.text(
            request_id, "b", finish=FinishReason(type="abort", message="broken", status_code=500)
        )
        assert [chunk.text for chunk in await anext(request)] == ["b"]
        with pytest.raises(RequestFailed, match="broken"):
            await anext(request)


async def test_one_choice_that_fails_ends_the_others() -> None:
    async with new_world() as world:
        request = await world.start(n=3)
        ids = [message.request_id for message in world.requests]
        await world.text(ids[1], "", finish=FinishReason(type="abort", message="x", status_code=400))
        with pytest.raises(RequestFailed):
            await anext(request)
        assert world.aborted_ids == [ids[0], ids[2]]


async def test_a_request_that_failed_on_its_way_here_is_ended_in_the_scheduler_too() -> None:
    async with new_world() as world:
        await world.start()
        request_id = world.requests[0].request_id
        await world.text(request_id, "", finish=FinishReason(type="abort", message="x", status_code=500))
        assert request_id in world.aborted_ids


# Giving up.


async def test_cancelling_a_waiting_caller_aborts_its_request_at_once() -> None:
    async with new_world() as world:
        request = await world.start(n=2)
        caller = asyncio.create_task(collect(request))
        await until_waiting(request)
        caller.cancel()
        with pytest.raises(asyncio.CancelledError):
            await caller
        assert world.aborted_ids == [message.request_id for message in world.requests]


async def test_a_caller_that_has_left_gets_nothing_more_and_its_state_goes_with_the_last_word() -> None:
    async with new_world() as world:
        request = await world.start()
        request_id = world.requests[0].request_id
        await world.text(request_id, "a")
        request.abort()
        await world.text(request_id, "b")
        assert await collect(request) == []
        assert world.manager.num_open == 1
        await world.text(request_id, "", finish=ABORTED)
        assert world.manager.num_open == 0


async def test_giving_up_twice_or_after_the_end_asks_for_nothing() -> None:
    async with new_world() as world:
        left, ended = await world.start(), await world.start()
        first, second = (message.request_id for message in world.requests)
        await world.text(second, "a", finish=LENGTH)
        left.abort()
        left.abort()
        ended.abort()
        assert world.aborted_ids == [first]


async def test_abort_by_rid_ends_every_request_with_exactly_this_rid() -> None:
    async with new_world() as world:
        for rid in ("a1", "a10", "a1"):
            await world.start(rid=rid)
        ids = [message.request_id for message in world.requests]
        world.manager.abort("a1")
        world.manager.abort("unknown")
        assert world.aborted_ids == [ids[0], ids[2]]


async def test_a_request_that_another_client_aborted_ends_with_its_text_and_an_abort() -> None:
    async with new_world() as world:
        request = await world.start(rid="r")
        request_id = world.requests[0].request_id
        await world.text(request_id, "so far")
        world.manager.abort("r")
        await world.text(request_id, "", finish=ABORTED)
        assert [(chunk.text, chunk.finish) for chunk in await collect(request)] == [("so far", ABORTED)]


async def test_abort_all_ends_every_request() -> None:
    async with new_world() as world:
        await world.start()
        await world.start(n=2)
        world.manager.abort_all()
        assert world.aborted_ids == [message.request_id for message in world.requests]


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


# Admin.


async def test_flushing_gives_none_or_the_reason() -> None:
    async with new_world() as world:
        for done, answer in ((True, None), (False, "busy")):
            flush = asyncio.create_task(world.manager.flush_cache())
            await until(lambda: world.sent and isinstance(world.sent[-1], FlushCache))
            control_id = world.sent.pop().control_id  # type: ignore[union-attr]
            await world.say(FlushCacheReply(control_id=control_id, done=done, reason="busy"))
            assert await flush == answer


async def test_flushing_with_time_tries_again_until_the_engine_is_idle() -> None:
    async with new_world() as world:
        flush = asyncio.create_task(world.manager.flush_cache(timeout_s=60.0))
        for done in (False, True):
            await until(lambda: world.sent)
            control_id = world.sent.pop().control_id  # type: ignore[union-attr]
            await world.say(FlushCacheReply(control_id=control_id, done=done, reason="busy"))
        assert await flush is None


async def test_a_late_reply_is_never_taken_for_the_next_ones() -> None:
    async with new_world() as world:
        await world.say(GetStateReply(control_id=1, state={"turn": -1}))
        state = asyncio.create_task(world.manager.server_state())
        await until(lambda: world.sent)
        assert isinstance(world.sent[0], GetState)
        control_id = world.sent[0].control_id
        await world.say(
            GetStateReply(control_id=control_id + 1, state={"turn": 0}),
            GetStateReply(control_id=control_id, state={"turn": 5}),
        )
        assert await state == {"turn": 5}


async def test_shutting_down_sends_the_one_message() -> None:
    async with new_world() as world:
        world.manager.shut_down()
        assert world.sent == [Shutdown()]


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


async def test_the_instants_of_a_request_are_noted() -> None:
    async with new_world() as world:
        request = await world.start()
        world.now += 2.0
        await world.text(world.requests[0].request_id, "a")
        world.now += 3.0
        await world.text(world.requests[0].request_id, "b", finish=LENGTH)
        assert (request.timing.time_to_first_token_s, request.timing.duration_s) == (2.0, 5.0)
