"""Admin requests, each with a reply of its own."""

import asyncio

import pytest

from managers.messages import (
    FlushCache,
    FlushCacheReply,
    GetState,
    GetStateReply,
    Shutdown,
)
from tests.managers.front import (
    new_world,
    until,
)

pytestmark = pytest.mark.anyio


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
        state = asyncio.create_task(world.manager.server_states())
        await until(lambda: world.sent)
        assert isinstance(world.sent[0], GetState)
        control_id = world.sent[0].control_id
        await world.say(
            GetStateReply(control_id=control_id + 1, state={"turn": 0}),
            GetStateReply(control_id=control_id, state={"turn": 5}),
        )
        assert await state == [{"dp_rank": 0, "turn": 5}]


async def test_a_flush_is_done_when_every_replica_has_done_it() -> None:
    async with new_world(dp_size=3) as world:
        for answers, outcome in (((True, True, True), None), ((True, False, False), "busy 1")):
            flush = asyncio.create_task(world.manager.flush_cache())
            await until(lambda: world.sent)
            control_id = world.sent.pop().control_id  # type: ignore[union-attr]
            for dp_rank in (2, 0, 1):
                assert not flush.done()
                await world.say(
                    FlushCacheReply(
                        control_id=control_id,
                        done=answers[dp_rank],
                        reason=f"busy {dp_rank}",
                        dp_rank=dp_rank,
                    )
                )
            assert await flush == outcome


async def test_states_are_one_a_replica_by_rank() -> None:
    async with new_world(dp_size=2) as world:
        states = asyncio.create_task(world.manager.server_states())
        await until(lambda: world.sent)
        control_id = world.sent[0].control_id  # type: ignore[union-attr]
        for dp_rank in (1, 0):
            await world.say(
                GetStateReply(control_id=control_id, state={"turn": 10 + dp_rank}, dp_rank=dp_rank)
            )
        assert await states == [{"dp_rank": 0, "turn": 10}, {"dp_rank": 1, "turn": 11}]


async def test_nobody_waits_for_the_reply_of_a_replica_that_is_lost() -> None:
    async with new_world(dp_size=2) as world:
        states = asyncio.create_task(world.manager.server_states())
        await until(lambda: world.sent)
        control_id = world.sent[0].control_id  # type: ignore[union-attr]
        await world.say(GetStateReply(control_id=control_id, state={}, dp_rank=0))
        world.manager.lose_replica(1, "it has died")
        assert await states == [{"dp_rank": 0}]


async def test_shutting_down_sends_the_one_message() -> None:
    async with new_world() as world:
        world.manager.shut_down()
        assert world.sent == [Shutdown()]
