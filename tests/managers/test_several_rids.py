"""A batch whose prompts have names of their own: each can be aborted alone."""

import asyncio

import msgspec
import pytest

from srt.engine_client import GenerateRequest, TextPrompt
from tests.managers.front import ABORTED, World, asked, collect, last_word, new_world, text_batch

pytestmark = pytest.mark.anyio


def batch(*rids: str, n: int = 1) -> GenerateRequest:
    request = asked(*(TextPrompt(rid) for rid in rids), n=n, rid="label")
    return msgspec.structs.replace(request, rids=rids)


async def end_all(world: World) -> None:
    await world.say(
        text_batch({}, ends=[last_word(message.request_id, ABORTED) for message in world.requests])
    )


async def test_an_abort_ends_the_answers_to_that_prompt_only() -> None:
    async with new_world() as world:
        request = await world.manager.generate(batch("x", "y", "z", n=2))
        ids = [message.request_id for message in world.requests]
        world.manager.abort("y")
        assert world.aborted_ids == ids[2:4]
        await end_all(world)
        assert len(await collect(request)) == 6
        world.manager.abort("x")
        assert world.aborted_ids == ids[2:4]


async def test_an_abort_while_tokenising_ends_that_prompt_as_soon_as_it_is_dispatched() -> None:
    async with new_world() as world:
        arriving = asyncio.create_task(world.manager.generate(batch("x", "y")))
        await asyncio.sleep(0)
        world.manager.abort("x")
        await arriving
        assert world.aborted_ids == [world.requests[0].request_id]
        await end_all(world)


async def test_what_has_ended_is_aborted_no_more_and_names_may_come_again() -> None:
    async with new_world() as world:
        await world.manager.generate(batch("x", "y"))
        first, second = (message.request_id for message in world.requests)
        await world.say(text_batch({}, ends=[last_word(first)]))
        world.manager.abort("x")
        assert world.aborted_ids == []
        await world.manager.generate(batch("x", "y"))
        world.manager.abort("y")
        assert world.aborted_ids == [second, world.requests[3].request_id]
        await end_all(world)
        assert world.manager.num_open == 0
