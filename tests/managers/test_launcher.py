"""A tree of real processes: how it starts, how it ends, and that nothing is left of it."""

import asyncio
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from managers.ipc import AsyncReceiver, send_once
from managers.messages import Shutdown, TokenizerManagerInput
from srt.errors import StartupError
from tests.managers.process_world import new_world

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[2]


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def title_of(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_text().rstrip("\0")


async def test_a_tree_is_ready_when_every_child_is_and_knows_what_each_told() -> None:
    async with new_world() as world:
        world.start("ready_until_killed", "ready_until_shutdown")
        facts = await world.tree.wait_ready()
        pids = [int(told["pid"] or 0) for told in facts.values()]
        assert set(facts) == {"ready_until_killed", "ready_until_shutdown"}
        assert all(is_alive(pid) for pid in pids)


async def test_a_child_that_cannot_start_says_why_in_one_sentence() -> None:
    async with new_world() as world:
        world.start("cannot_start", "never_ready")
        with pytest.raises(StartupError, match=r"cannot_start.*the moon is too far \(wait\)"):
            await world.tree.wait_ready()


async def test_a_bug_in_a_child_ends_the_start_too_and_leaves_a_traceback(
    capfd: pytest.CaptureFixture[str],
) -> None:
    async with new_world() as world:
        world.start("has_a_bug")
        with pytest.raises(StartupError, match="seven by nothing"):
            await world.tree.wait_ready()
        assert "Traceback" in capfd.readouterr().err


async def test_a_child_that_is_killed_before_it_is_ready_ends_the_start() -> None:
    async with new_world() as world:
        world.start("is_killed_at_once", "never_ready")
        with pytest.raises(StartupError, match=r"is_killed_at_once has died .*SIGKILL"):
            await world.tree.wait_ready()


async def test_a_divergence_is_told_in_its_own_words() -> None:
    async with new_world() as world:
        world.start("diverges")
        with pytest.raises(StartupError, match="turn 7: rank 1 planned otherwise"):
            await world.tree.wait_ready()


async def test_the_death_of_a_running_child_is_noticed() -> None:
    async with new_world() as world:
        world.start("ready_until_killed")
        facts = await world.tree.wait_ready()
        assert not world.tree.death.done()
        os.kill(int(facts["ready_until_killed"]["pid"] or 0), signal.SIGKILL)
        assert await world.tree.death == "ready_until_killed has died (killed by SIGKILL)"


async def test_a_running_child_that_fails_is_told_in_its_own_words() -> None:
    async with new_world() as world:
        world.start("fails_when_told")
        await world.tree.wait_ready()
        send_once(world.addresses.scheduler_input, Shutdown())
        assert await world.tree.death == "fails_when_told has failed: ZeroDivisionError: seven by nothing"


async def test_a_replica_dies_alone_and_whole_and_the_last_one_is_the_end() -> None:
    async with new_world() as world:
        world.start_replicas("ready_until_killed", "ready_until_killed", num_ranks=2)
        facts = await world.tree.wait_ready()
        pids = {name: int(told["pid"] or 0) for name, told in facts.items()}
        lost: asyncio.Queue[tuple[int, str]] = asyncio.Queue()
        world.tree.watch_replicas(lambda dp_rank, why: lost.put_nowait((dp_rank, why)))
        descriptor = os.pidfd_open(pids["DP1_TP0"])
        os.kill(pids["DP1_TP1"], signal.SIGKILL)
        assert await lost.get() == (1, "DP1_TP1 has died (killed by SIGKILL)")
        # A pidfd is readable when its process has ended.
        assert await asyncio.to_thread(select.select, [descriptor], [], [], 60)
        os.close(descriptor)
        assert is_alive(pids["DP0_TP0"])
        assert not world.tree.death.done()
        os.kill(pids["DP0_TP0"], signal.SIGKILL)
        assert await world.tree.death == "DP0_TP0 has died (killed by SIGKILL)"
        assert lost.empty()


async def test_whoever_watches_late_hears_of_a_replica_that_is_lost_already() -> None:
    async with new_world() as world:
        world.start_replicas("ready_until_killed", "ready_until_killed")
        facts = await world.tree.wait_ready()
        early: asyncio.Queue[int] = asyncio.Queue()
        world.tree.watch_replicas(lambda dp_rank, why: early.put_nowait(dp_rank))
        os.kill(int(facts["DP0_TP0"]["pid"] or 0), signal.SIGKILL)
        assert await early.get() == 0
        late: list[int] = []
        world.tree.watch_replicas(lambda dp_rank, why: late.append(dp_rank))
        assert late == [0]


async def test_a_replica_that_cannot_start_ends_the_start() -> None:
    async with new_world() as world:
        world.start_replicas("ready_until_killed", "cannot_start")
        with pytest.raises(StartupError, match=r"DP1_TP0.*the moon is too far"):
            await world.tree.wait_ready()


async def test_beside_replicas_another_child_is_still_the_end() -> None:
    async with new_world() as world:
        world.start_replicas("ready_until_killed", "ready_until_killed")
        world.start("fails_when_told")
        await world.tree.wait_ready()
        send_once(world.addresses.scheduler_input, Shutdown())
        assert "fails_when_told has failed" in await world.tree.death


async def test_children_that_end_when_told_are_no_death() -> None:
    async with new_world() as world:
        world.start("ready_until_shutdown")
        await world.tree.wait_ready()
        send_once(world.addresses.scheduler_input, Shutdown())
        await world.tree.stop(grace_s=60.0)
        assert not world.tree.death.done()


async def test_a_child_that_does_not_stop_is_killed() -> None:
    async with new_world() as world:
        world.start("ready_until_killed")
        facts = await world.tree.wait_ready()
        await world.tree.stop(grace_s=0.0)
        await world.tree.close()
        assert not is_alive(int(facts["ready_until_killed"]["pid"] or 0))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_a_signal_to_the_whole_group_does_not_end_a_child(number: signal.Signals) -> None:
    async with new_world() as world:
        world.start("ready_until_shutdown")
        facts = await world.tree.wait_ready()
        pid = int(facts["ready_until_shutdown"]["pid"] or 0)
        os.kill(pid, number)
        send_once(world.addresses.scheduler_input, Shutdown())
        await world.tree.stop(grace_s=60.0)
        assert not world.tree.death.done()


async def test_what_a_child_sent_before_it_ended_arrives() -> None:
    async with new_world() as world:
        receiver = AsyncReceiver[TokenizerManagerInput](
            world.addresses.tokenizer_manager_input, TokenizerManagerInput
        )
        world.start("says_something_and_ends")
        await world.tree.death
        num_received = 0
        while num_received < 1000:
            num_received += len(await receiver.receive())
        receiver.close()


async def test_a_child_has_a_readable_title() -> None:
    async with new_world() as world:
        world.start("ready_until_killed")
        facts = await world.tree.wait_ready()
        assert title_of(int(facts["ready_until_killed"]["pid"] or 0)) == "lockstep::ready_until_killed"


def test_when_the_parent_is_killed_its_children_die_and_the_folder_goes() -> None:
    command = [sys.executable, "-m", "tests.managers.process_tree_program"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as parent:
        assert parent.stdout is not None
        folder, *pids = parent.stdout.readline().split()
        assert len(pids) == 2
        descriptors = [os.pidfd_open(int(pid)) for pid in pids]
        parent.kill()
        for descriptor in descriptors:
            # A pidfd is readable when its process has ended.
            assert select.select([descriptor], [], [], 60)[0]
            os.close(descriptor)
    assert not Path(folder).exists()
