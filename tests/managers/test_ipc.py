"""Sockets between processes, and the folder they live in."""

import asyncio
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import zmq

from managers.ipc import AsyncReceiver, IpcAddresses, Receiver, Sender, send_once
from managers.messages import AbortRequest, SchedulerInput, Shutdown
from srt.errors import StartupError


@pytest.fixture
def addresses() -> Iterator[IpcAddresses]:
    addresses = IpcAddresses.create()
    yield addresses
    addresses.remove()


def test_the_folder_is_private_and_goes_with_everything_in_it() -> None:
    addresses = IpcAddresses.create()
    folder = Path(addresses.folder)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    (folder / "rendezvous").touch()
    addresses.remove()
    assert not folder.exists()


def test_a_folder_whose_server_is_gone_is_removed_by_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    leftover, living = tmp_path / "lockstep-leftover", IpcAddresses.create()
    leftover.mkdir()
    (leftover / "lock").touch()
    (leftover / "scheduler").touch()
    fresh = IpcAddresses.create()
    assert {path.name for path in tmp_path.iterdir()} == {Path(living.folder).name, Path(fresh.folder).name}
    living.remove()
    fresh.remove()


def test_a_folder_too_deep_for_a_socket_is_an_error_of_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = tmp_path / ("x" * 100)
    deep.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(deep))
    with pytest.raises(StartupError, match="TMPDIR"):
        IpcAddresses.create()
    assert list(deep.iterdir()) == []


def test_messages_arrive_whole_and_in_order(addresses: IpcAddresses) -> None:
    receiver = Receiver[SchedulerInput](addresses.scheduler_input, SchedulerInput)
    sender = Sender[SchedulerInput](addresses.scheduler_input)
    messages = [AbortRequest(request_ids=[number]) for number in range(5000)]
    for message in messages:
        sender.send(message)
    received: list[SchedulerInput] = []
    while len(received) < len(messages):
        received += receiver.receive(10.0)
    assert received == messages
    sender.close()
    receiver.close()


def test_nothing_that_came_in_time_is_an_empty_list(addresses: IpcAddresses) -> None:
    receiver = Receiver[SchedulerInput](addresses.scheduler_input, SchedulerInput)
    assert receiver.receive(0.0) == []
    receiver.close()


def test_a_frame_that_is_no_message_is_dropped_and_said(
    addresses: IpcAddresses, caplog: pytest.LogCaptureFixture
) -> None:
    receiver = Receiver[SchedulerInput](addresses.scheduler_input, SchedulerInput)
    with zmq.Context() as context, context.socket(zmq.PUSH) as socket:
        socket.connect(addresses.scheduler_input)
        socket.send(b"\x80\x04N.")  # a pickle
        socket.send(b"")
    send_once(addresses.scheduler_input, Shutdown())
    received: list[SchedulerInput] = []
    while not received:
        received = receiver.receive(10.0)
    assert received == [Shutdown()]
    assert "no message" in caplog.text
    receiver.close()


@pytest.mark.anyio
async def test_an_event_loop_gets_everything_that_has_arrived_at_once(addresses: IpcAddresses) -> None:
    receiver = AsyncReceiver[SchedulerInput](addresses.scheduler_input, SchedulerInput)
    sender = Sender[SchedulerInput](addresses.scheduler_input)
    waiting = asyncio.create_task(receiver.receive())
    for round_number in range(50):
        messages = [AbortRequest(request_ids=[round_number, number]) for number in range(round_number + 1)]
        for message in messages:
            sender.send(message)
        received: list[SchedulerInput] = []
        while len(received) < len(messages):
            received += await asyncio.wait_for(waiting, 60)
            waiting = asyncio.create_task(receiver.receive())
        assert received == messages
    waiting.cancel()
    sender.close()
    receiver.close()


@pytest.mark.anyio
async def test_a_receiver_that_nobody_waits_for_is_not_watched(addresses: IpcAddresses) -> None:
    receiver = AsyncReceiver[SchedulerInput](addresses.scheduler_input, SchedulerInput)
    send_once(addresses.scheduler_input, Shutdown())
    assert await receiver.receive() == [Shutdown()]
    send_once(addresses.scheduler_input, Shutdown())  # arrives, and its sender leaves
    loop = asyncio.get_running_loop()
    assert not loop.remove_reader(receiver._inbox.socket.fileno())
    receiver.close()
