"""What a caller gets of its request, and what giving up does."""

import asyncio
import gc
import weakref

import pytest

from srt.engine_client import (
    FinishReason,
    GenerateChunk,
)
from srt.errors import RequestFailed
from tests.managers.front import (
    ABORTED,
    LENGTH,
    collect,
    collect_text,
    new_world,
    text_batch,
    until_waiting,
)

pytestmark = pytest.mark.anyio


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


async def test_the_instants_of_a_request_are_noted() -> None:
    async with new_world() as world:
        request = await world.start()
        world.now += 2.0
        await world.text(world.requests[0].request_id, "a")
        world.now += 3.0
        await world.text(world.requests[0].request_id, "b", finish=LENGTH)
        assert (request.timing.time_to_first_token_s, request.timing.duration_s) == (2.0, 5.0)


async def test_a_request_that_is_over_is_gone_without_the_garbage_collector() -> None:
    gc.disable()
    try:
        async with new_world() as world:
            request = await world.start()
            over = weakref.ref(request)
            await world.text(world.requests[0].request_id, "a", finish=LENGTH)
            assert await collect_text(request) == "a"
            del request
            assert over() is None, "its prompt would stay until the collector comes by"
    finally:
        gc.enable()
