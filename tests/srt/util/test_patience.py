import asyncio
import socket
import time

import pytest

from srt.util.patience import patience

# The loop of a real server, which runs timers between two reads.
pytestmark = [
    pytest.mark.anyio,
    pytest.mark.parametrize("anyio_backend", [("asyncio", {"use_uvloop": True})]),
]


async def test_what_has_come_while_this_process_had_no_core_is_not_late() -> None:
    loop = asyncio.get_running_loop()
    answered = loop.create_future()
    ours, theirs = socket.socketpair()
    work, worker = socket.socketpair()
    with ours, theirs, work, worker:

        def lose_the_core() -> None:
            theirs.send(b"answer")
            time.sleep(0.2)  # nobody waits here: it is what this process goes through
            loop.remove_reader(work)

        loop.add_reader(work, lose_the_core)
        loop.add_reader(ours, lambda: answered.done() or answered.set_result(ours.recv(6)))
        worker.send(b"something that takes long")
        async with patience(0.1):
            assert await answered == b"answer"
        loop.remove_reader(ours)


async def test_what_does_not_come_is_late() -> None:
    with pytest.raises(TimeoutError):
        async with patience(0.001):
            await asyncio.get_running_loop().create_future()
