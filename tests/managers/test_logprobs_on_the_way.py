"""Log-probabilities from the scheduler to the caller: past the detokenizer, and with the tokens they are about."""

import msgspec
import pytest

from managers.detokenizer_manager import Detokenizer, merge_batches
from managers.messages import DetokenizerInput, RequestLogprobs, RequestOpened, TextBatch, TokenBatch
from srt.engine_client import GenerateRequest, LogprobOptions, Logprobs, TextPrompt
from srt.errors import InvalidRequest
from srt.sampling.params import SamplingParams
from tests.fakes.tokenizer import ByteTokenizer
from tests.managers.front import collect, last_word, new_world, text_batch

pytestmark = pytest.mark.anyio


def told_of(text: str, *, first: float = -1.0) -> Logprobs:
    ids = list(text.encode())
    return Logprobs(
        token_ids=ids,
        logprobs=[first - i for i in range(len(ids))],
        top=[[(token_id, -0.5)] for token_id in ids],
        asked=[[] for _ in ids],
    )


def tokens(request_id: int, text: str, *, opens: bool = False, prompt: Logprobs | None = None) -> TokenBatch:
    return TokenBatch(
        request_ids=[request_id],
        num_tokens=[len(text)],
        token_ids=list(text.encode()),
        opened=[RequestOpened(request_id=request_id, prompt_tail=[65], cached_tokens=0)] if opens else [],
        logprobs=[RequestLogprobs(request_id=request_id, output=told_of(text), prompt=prompt)],
    )


def ask(*options: LogprobOptions | None, n: int = 1) -> GenerateRequest:
    return GenerateRequest(
        prompts=[TextPrompt("hello")] * len(options),
        sampling=[SamplingParams(n=n, max_new_tokens=8)] * len(options),
        logprobs=options,
        stream=True,
    )


def test_the_detokenizer_passes_them_on_also_of_one_that_said_nothing() -> None:
    detokenizer = Detokenizer(ByteTokenizer())
    batch = tokens(1, "ab", opens=True, prompt=told_of("A"))
    assert detokenizer.process(batch).logprobs == batch.logprobs
    of_prompt_only = TokenBatch(
        request_ids=[],
        num_tokens=[],
        token_ids=[],
        finished=[last_word(2)],
        logprobs=[RequestLogprobs(request_id=2, output=Logprobs(), prompt=told_of("x"))],
    )
    assert detokenizer.process(of_prompt_only).logprobs == of_prompt_only.logprobs


def test_batches_that_are_merged_lose_none() -> None:
    (merged,) = merge_batches([tokens(1, "ab", opens=True), tokens(2, "x", opens=True), tokens(1, "c")])
    assert isinstance(merged, TokenBatch)
    assert [(told.request_id, told.output.token_ids) for told in merged.logprobs] == [
        (1, [97, 98]),
        (2, [120]),
        (1, [99]),
    ]


def test_they_survive_the_wire() -> None:
    sent = tokens(1, "ab", prompt=Logprobs(token_ids=[5], logprobs=[None], top=[[]], asked=[[]]))
    decoder = msgspec.msgpack.Decoder(DetokenizerInput)
    assert decoder.decode(msgspec.msgpack.encode(sent)) == sent


async def test_each_prompt_is_asked_for_its_own_and_every_choice_of_it() -> None:
    async with new_world() as world:
        options = LogprobOptions(prompt_start=0, num_top=2)
        await world.manager.generate(ask(options, None, n=2))
        assert [message.logprobs for message in world.requests] == [options, options, None, None]


async def test_a_chunk_has_those_of_its_tokens_and_the_first_those_of_the_prompt() -> None:
    async with new_world() as world:
        request = await world.manager.generate(ask(LogprobOptions(prompt_start=0)))
        request_id = world.requests[0].request_id
        for text, prompt in (("ab", told_of("hello")), ("c", None)):
            logprobs = RequestLogprobs(request_id=request_id, output=told_of(text), prompt=prompt)
            await world.say(msgspec.structs.replace(text_batch({request_id: text}), logprobs=[logprobs]))
            (chunk,) = await anext(request)
            assert chunk.logprobs == told_of(text)
            assert chunk.prompt_logprobs == prompt
        await world.say(text_batch({}, ends=[last_word(request_id)]))
        (last,) = await collect(request)
        assert (last.logprobs, last.prompt_logprobs) == (None, None)


async def test_a_slow_reader_gets_all_of_them_joined() -> None:
    async with new_world() as world:
        request = await world.manager.generate(ask(LogprobOptions(prompt_start=0)))
        request_id = world.requests[0].request_id
        for text, prompt in (("ab", told_of("hello")), ("c", None)):
            logprobs = RequestLogprobs(request_id=request_id, output=told_of(text), prompt=prompt)
            await world.say(msgspec.structs.replace(text_batch({request_id: text}), logprobs=[logprobs]))
        (chunk,) = await anext(request)
        assert chunk.logprobs is not None
        assert chunk.token_ids == chunk.logprobs.token_ids == [97, 98, 99]
        assert chunk.logprobs.logprobs == [-1.0, -2.0, -1.0]
        assert chunk.prompt_logprobs == told_of("hello")


async def test_the_last_word_says_what_is_no_text_and_how_often_it_gave_way() -> None:
    async with new_world() as world:
        request = await world.start()
        end = msgspec.structs.replace(
            last_word(world.requests[0].request_id), num_trimmed_tokens=1, num_retractions=3
        )
        await world.say(text_batch({}, ends=[end]))
        (chunk,) = await collect(request)
        assert (chunk.num_trimmed_tokens, chunk.num_retractions) == (1, 3)


async def test_those_of_a_prompt_without_answer_come_with_the_end() -> None:
    async with new_world() as world:
        request = await world.manager.generate(ask(LogprobOptions(prompt_start=0)))
        request_id = world.requests[0].request_id
        told = RequestLogprobs(request_id=request_id, output=Logprobs(), prompt=told_of("hello"))
        batch: TextBatch = text_batch({}, ends=[last_word(request_id)])
        await world.say(msgspec.structs.replace(batch, logprobs=[told]))
        (chunk,) = await collect(request)
        assert chunk.prompt_logprobs == told_of("hello")


@pytest.mark.parametrize(
    ("options", "field"),
    [
        (LogprobOptions(prompt_start=6), "prompt_start"),
        (LogprobOptions(prompt_start=-1), "prompt_start"),
        (LogprobOptions(num_top=129), "num_top"),
        (LogprobOptions(num_top=-1), "num_top"),
        (LogprobOptions(token_ids=(5, 260)), "token_ids"),
        (LogprobOptions(token_ids=(-1,)), "token_ids"),
        (LogprobOptions(token_ids=(1,) * 1025), "token_ids"),
    ],
)
async def test_what_cannot_be_told_is_refused_by_name_and_nothing_is_sent(
    options: LogprobOptions, field: str
) -> None:
    async with new_world() as world:
        with pytest.raises(InvalidRequest) as refused:
            await world.manager.generate(ask(None, options))
        assert refused.value.param == field
        assert world.requests == []


def test_a_prompt_of_which_too_much_is_asked_is_refused() -> None:
    options = LogprobOptions(prompt_start=0, num_top=128)
    options.check(prompt_len=7000, vocab_size=10)
    with pytest.raises(InvalidRequest) as refused:
        options.check(prompt_len=8000, vocab_size=10)
    assert refused.value.param == "prompt_start"


def test_the_whole_prompt_may_be_skipped() -> None:
    LogprobOptions(prompt_start=5).check(prompt_len=5, vocab_size=10)
