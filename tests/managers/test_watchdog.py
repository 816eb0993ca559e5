"""Real processes that get stuck, and what the watchdog makes of them."""

import asyncio
import logging
import os
import signal

import pytest

from managers.watchdog import watched
from tests.managers.front import until
from tests.managers.process_world import World, new_world

pytestmark = pytest.mark.anyio
LIMIT_S = 0.5


async def death_under_watch(world: World) -> str:
    async with watched(world.tree, world.addresses, LIMIT_S):
        return await world.tree.death


async def test_one_that_is_stuck_is_named_its_stack_is_logged_and_it_is_killed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with new_world() as world:
        world.start("beats", "gets_stuck")
        facts = await world.tree.wait_ready()
        why = await death_under_watch(world)
        assert "gets_stuck" in why
        assert "beats" not in why
        stacks = [record.getMessage() for record in caplog.records if record.levelno == logging.CRITICAL]
        assert any("in waits_for_what_never_comes" in text for text in stacks)
        await until(lambda: world.tree.pid_of("gets_stuck") is None)
        assert world.tree.pid_of("beats") == facts["beats"]["pid"]


async def test_one_that_is_stopped_is_said_to_be(caplog: pytest.LogCaptureFixture) -> None:
    async with new_world() as world:
        world.start("beats")
        facts = await world.tree.wait_ready()
        os.kill(int(facts["beats"]["pid"] or 0), signal.SIGSTOP)
        assert "beats for" in await death_under_watch(world)
        assert "state: stopped" in world.tree.death.result()


async def test_a_stuck_replica_is_lost_and_the_other_goes_on() -> None:
    async with new_world() as world:
        lost: asyncio.Future[tuple[int, str]] = asyncio.get_running_loop().create_future()
        world.start_replicas("beats", "gets_stuck")
        await world.tree.wait_ready()
        world.tree.watch_replicas(lambda dp_rank, why: lost.set_result((dp_rank, why)))
        async with watched(world.tree, world.addresses, LIMIT_S):
            dp_rank, why = await lost
        assert dp_rank == 1
        assert "DP1_TP0" in why
        assert not world.tree.death.done()


async def test_a_stuck_helper_is_killed_and_nobody_else() -> None:
    async with new_world() as world:
        world.start("beats")
        await world.tree.wait_ready()
        world.tree.offer(world.actor("gets_stuck"))
        world.tree._start_on_demand("gets_stuck")
        async with watched(world.tree, world.addresses, LIMIT_S):
            await until(lambda: world.tree.pulses["gets_stuck"].last_beat is not None)
            await until(lambda: world.tree.pid_of("gets_stuck") is None)
        assert not world.tree.death.done()
