"""A client that hangs up ends its request at once, whatever the request was doing; nobody else notices."""

import asyncio

import pytest

from srt.entrypoints.disconnect import ClientDisconnected, until_disconnect
from tests.fakes.engine_client import STOP, FakeEngineClient, chunk
from tests.fakes.http_world import BODIES, DEADLINE_S, serving

pytestmark = pytest.mark.anyio

EVERY_ENDPOINT = pytest.mark.parametrize("path", BODIES)
BOTH_WAYS = pytest.mark.parametrize("stream", [False, True])
VARIANTS = pytest.mark.parametrize("extra", [{}, {"n": 2}])


def body_of(path: str, *, stream: bool, extra: dict[str, int] | None = None) -> dict[str, object]:
    extra = extra or {}
    nested = {"sampling_params": extra} if path == "/generate" and extra else extra
    return BODIES[path] | {"stream": stream} | nested


@EVERY_ENDPOINT
@BOTH_WAYS
@VARIANTS
async def test_leaving_before_the_first_token_aborts(path: str, stream: bool, extra: dict[str, int]) -> None:
    client = FakeEngineClient()
    async with serving(client) as world, world.connection() as connection:
        connection.post(path, body_of(path, stream=stream, extra=extra))
        generation = await client.next_generation()
        connection.hang_up()
        await generation.was_aborted.wait()


@EVERY_ENDPOINT
async def test_leaving_in_mid_stream_aborts(path: str) -> None:
    client = FakeEngineClient()
    async with serving(client) as world, world.connection() as connection:
        connection.post(path, body_of(path, stream=True))
        generation = await client.next_generation()
        generation.push(chunk("a"))
        await connection.read_until(b"data: ")
        connection.hang_up()
        await generation.was_aborted.wait()


@EVERY_ENDPOINT
async def test_leaving_in_mid_answer_aborts_a_request_without_stream(path: str) -> None:
    client = FakeEngineClient()
    async with serving(client) as world, world.connection() as connection:
        connection.post(path, body_of(path, stream=False))
        generation = await client.next_generation()
        generation.push(chunk("a"))
        connection.hang_up()
        await generation.was_aborted.wait()


@EVERY_ENDPOINT
@BOTH_WAYS
async def test_leaving_while_the_prompt_is_tokenised_dispatches_nothing(path: str, stream: bool) -> None:
    client = FakeEngineClient()
    client.is_dispatch_blocked = True
    async with serving(client) as world, world.connection() as connection:
        connection.post(path, body_of(path, stream=stream))
        await client.dispatch_was_blocked.wait()
        connection.hang_up()
        await client.dispatch_was_cancelled.wait()
    assert client.generations == []


@EVERY_ENDPOINT
@BOTH_WAYS
async def test_an_answer_that_came_to_its_end_is_not_aborted(path: str, stream: bool) -> None:
    client = FakeEngineClient([[chunk("a", finish=STOP)]])
    async with serving(client) as world, world.connection() as connection:
        connection.post(path, body_of(path, stream=stream))
        assert await connection.read_status() == 200
        # The next request on the same connection is answered when all of this one is over.
        connection.writer.write(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
        await connection.read_until(b'{"status":"ok"}')
    assert not client.generations[0].is_aborted


async def test_another_stream_goes_on() -> None:
    client = FakeEngineClient()
    async with serving(client) as world, world.connection() as staying:
        staying.post("/generate", body_of("/generate", stream=True))
        staying_generation = await client.next_generation()
        async with world.connection() as leaving:
            leaving.post("/generate", body_of("/generate", stream=True))
            leaving_generation = await client.next_generation()
        await leaving_generation.was_aborted.wait()
        staying_generation.push(chunk("still here", finish=STOP))
        await staying.read_until(b"still here")
        await staying.read_until(b"[DONE]")
    assert not staying_generation.is_aborted


async def test_no_task_is_left_when_a_client_has_left() -> None:
    before = asyncio.all_tasks()
    left = asyncio.Event()

    async def receive() -> dict[str, str]:
        await left.wait()
        return {"type": "http.disconnect"}

    async def work() -> None:
        left.set()
        await asyncio.Event().wait()

    async with asyncio.timeout(DEADLINE_S):
        with pytest.raises(ClientDisconnected):
            await until_disconnect(receive, work())
    assert asyncio.all_tasks() == before


async def test_no_task_is_left_when_the_work_is_done() -> None:
    before = asyncio.all_tasks()

    async def receive() -> dict[str, str]:
        await asyncio.Event().wait()
        raise AssertionError

    async def work() -> int:
        return 7

    async with asyncio.timeout(DEADLINE_S):
        assert await until_disconnect(receive, work()) == 7
    assert asyncio.all_tasks() == before
