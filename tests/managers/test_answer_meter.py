"""What a front counts of answers as they pass."""

import msgspec
import pytest

from managers.messages import RequestFinished, TextBatch
from srt.engine_client import FinishReason, TextPrompt
from srt.observability.front_counts import Count
from srt.observability.histogram import Distribution
from srt.observability.request_timing import SchedulerTiming
from tests.managers.front import ABORTED, LENGTH, World, asked, new_world, text_batch

pytestmark = pytest.mark.anyio

PROMPT = "hello"


def ended(
    request_id: int,
    *,
    num_tokens: int = 2,
    reason: FinishReason = LENGTH,
    timing: SchedulerTiming | None = None,
) -> RequestFinished:
    return RequestFinished(
        request_id=request_id,
        reason=reason,
        prompt_tokens=len(PROMPT),
        completion_tokens=num_tokens,
        cached_tokens=3,
        timing=timing,
    )


async def start(world: World, *, stream: bool, n: int = 1) -> list[int]:
    """The numbers of a request's answers, in the hands of the scheduler."""
    num_before = len(world.requests)
    await world.manager.generate(msgspec.structs.replace(asked(TextPrompt(PROMPT), n=n), stream=stream))
    return [message.request_id for message in world.requests[num_before:]]


async def say(world: World, batch: TextBatch, *, after_s: float) -> None:
    world.now += after_s
    await world.say(batch)


def times(distribution: Distribution) -> tuple[int, float]:
    """How many, and their sum."""
    return sum(distribution.counts), pytest.approx(distribution.sum_s)


async def test_a_stream_is_timed_from_the_request_to_its_tokens() -> None:
    async with new_world() as world:
        counts = world.manager.counts
        (answer,) = await start(world, stream=True)
        await say(world, text_batch({answer: "a"}), after_s=0.5)
        await say(world, text_batch({answer: "b"}), after_s=0.03)
        await say(world, text_batch({answer: "cd"}, ends=[ended(answer, num_tokens=4)]), after_s=0.06)
        assert times(counts.time_to_first_token[True].read()) == (1, 0.5)
        assert times(counts.inter_token.read()) == (3, 0.09)
        assert times(counts.per_output_token[True].read()) == (1, 0.03)
        assert times(counts.end_to_end[True].read()) == (1, 0.59)
        assert counts[Count.STREAMED_ANSWERS] == 1
        assert counts[Count.STREAMED_PROMPT_TOKENS] == len(PROMPT)
        assert counts[Count.STREAMED_GENERATED_TOKENS] == 4
        assert counts[Count.CACHED_TOKENS] == 3


async def test_tokens_that_come_together_are_as_many_equal_intervals() -> None:
    async with new_world() as world:
        (answer,) = await start(world, stream=True)
        await say(world, text_batch({answer: "a"}), after_s=0.1)
        await say(world, text_batch({answer: "bcd"}), after_s=0.027)
        read = world.manager.counts.inter_token.read()
        assert read.counts[read.bounds.index(0.01)] == 3


async def test_answers_of_one_batch_are_told_apart_by_when_and_how_much_they_got_before() -> None:
    async with new_world() as world:
        first, second = await start(world, stream=True, n=2)
        (third,) = await start(world, stream=True)
        await say(world, text_batch({first: "a", second: "a"}), after_s=0.1)
        await say(world, text_batch({first: "b", second: "bc", third: "a"}), after_s=0.1)
        await say(world, text_batch({third: "b", first: "c", second: "d"}), after_s=0.2)
        read = world.manager.counts.inter_token.read()
        assert times(read) == (6, 0.1 + 2 * 0.05 + 3 * 0.2)
        assert times(world.manager.counts.time_to_first_token[True].read())[0] == 3


async def test_an_answer_that_comes_whole_is_timed_by_what_the_scheduler_says() -> None:
    async with new_world() as world:
        counts = world.manager.counts
        (answer,) = await start(world, stream=False)
        told = SchedulerTiming(arrived=world.now + 0.1, queue_s=0.2, prefill_s=0.3, decode_s=0.9)
        await say(
            world, text_batch({answer: "abcd"}, ends=[ended(answer, num_tokens=4, timing=told)]), after_s=2.0
        )
        assert times(counts.time_to_first_token[False].read()) == (1, 0.6)
        assert times(counts.inter_token.read()) == (3, 0.9)
        assert times(counts.per_output_token[False].read()) == (1, 0.3)
        assert times(counts.end_to_end[False].read()) == (1, 2.0)
        assert (counts[Count.GENERATED_TOKENS], counts[Count.STREAMED_GENERATED_TOKENS]) == (4, 0)


async def test_what_is_cut_off_is_counted_and_not_timed() -> None:
    async with new_world() as world:
        counts = world.manager.counts
        (answer,) = await start(world, stream=True)
        await say(world, text_batch({answer: "a"}), after_s=0.1)
        await say(world, text_batch({}, ends=[ended(answer, reason=ABORTED)]), after_s=9.0)
        assert counts[Count.ABORTED_ANSWERS] == counts[Count.STREAMED_ANSWERS] == 1
        assert times(counts.end_to_end[True].read()) == (0, 0.0)


async def test_a_prompt_that_is_only_read_counts_too() -> None:
    async with new_world() as world:
        (answer,) = await start(world, stream=True)
        await say(world, text_batch({}, ends=[ended(answer, num_tokens=0)]), after_s=0.1)
        assert world.manager.counts[Count.STREAMED_PROMPT_TOKENS] == len(PROMPT)
        assert times(world.manager.counts.time_to_first_token[True].read())[0] == 0


async def test_a_request_knows_where_its_time_went() -> None:
    async with new_world() as world:
        request = await world.start(PROMPT)
        (answer,) = [message.request_id for message in world.requests]
        arrived = world.now + 1.0
        told = SchedulerTiming(arrived=arrived, queue_s=2.0, prefill_s=3.0, decode_s=4.0)
        batch = text_batch({answer: "ab"}, ends=[ended(answer, timing=told)])
        await say(world, msgspec.structs.replace(batch, made_at=arrived + 10.0), after_s=12.5)
        segments = request.timing.segments()
        assert (segments["transport"], segments["queue"], segments["prefill"]) == (1.0, 2.0, 3.0)
        assert (segments["decode"], segments["detokenize"], segments["write"]) == (4.0, 1.0, 1.5)
