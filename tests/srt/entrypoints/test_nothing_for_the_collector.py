"""A request that is over is gone at once. A full collection is a hundred thousand requests away."""

import gc
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from tests.fakes.engine_client import LENGTH, FakeEngineClient, chunk
from tests.fakes.http_world import COMPLETION, World, serving

pytestmark = pytest.mark.anyio
NUM_REQUESTS = 20
STREAM = COMPLETION | {"stream": True}


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with serving(FakeEngineClient()) as world:
        yield world


async def is_answered(world: World) -> None:
    world.client.answers.append([[chunk("hi")], [chunk("x", finish=LENGTH)]])
    async with world.connection() as connection:
        connection.post("/v1/completions", COMPLETION)
        await connection.read_until(b'"usage"')


async def is_streamed(world: World) -> None:
    async with world.connection() as connection:
        connection.post("/v1/completions", STREAM)
        generation = await world.client.next_generation()
        for text in "abc":
            generation.push(chunk(text))
            await connection.read_until(b'"text":"' + text.encode())
        generation.push(chunk("x", finish=LENGTH))
        await connection.read_until(b"[DONE]")


async def leaves(world: World) -> None:
    async with world.connection() as connection:
        connection.post("/v1/completions", STREAM)
        generation = await world.client.next_generation()
        generation.push(chunk("a"))
        await connection.read_until(b'"text":"a"')
    await generation.was_aborted.wait()


async def is_wrong(world: World) -> None:
    async with world.connection() as connection:
        connection.post("/v1/completions", {"prompt": 7})
        assert await connection.read_status() == 400


@pytest.mark.parametrize("ask", [is_answered, is_streamed, leaves, is_wrong])
async def test_a_request_leaves_nothing_for_the_collector(
    world: World, ask: Callable[[World], Awaitable[None]]
) -> None:
    await ask(world)  # what is made once
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        for _ in range(NUM_REQUESTS):
            await ask(world)
            world.client.requests.clear()
            world.client.generations.clear()
        gc.collect()
        # Clients leave rings of their own.
        ours = Counter(
            type(thing).__qualname__ for thing in gc.garbage if type(thing).__module__.startswith("srt.")
        )
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
    assert {name: count for name, count in ours.items() if count >= NUM_REQUESTS} == {}
