"""Stopping: open streams may end; with force they are hung up on."""

import asyncio
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from srt.entrypoints.http_server import HttpServer, build_app
from srt.server_args.server_args import ServerArgs
from tests.fakes.engine_client import STOP, FakeEngineClient, chunk
from tests.fakes.http_world import DEADLINE_S, NATIVE, Connection, World

pytestmark = pytest.mark.anyio


async def open_stream(client: FakeEngineClient, connection: Connection) -> None:
    connection.post("/generate", NATIVE | {"stream": True})
    generation = await client.next_generation()
    generation.push(chunk("a"))
    await connection.read_until(b"data: ")


@asynccontextmanager
async def stream_being_read(
    client: FakeEngineClient,
) -> AsyncIterator[tuple[World, Connection, asyncio.Task[None]]]:
    """A server with one open stream, and the task that serves."""
    with socket.create_server(("127.0.0.1", 0)) as sock:
        server = HttpServer(build_app(client, ServerArgs()), sock)
        world = World(client, server, sock.getsockname()[1])
        async with asyncio.timeout(DEADLINE_S), asyncio.TaskGroup() as tasks:
            serving = tasks.create_task(server.serve())
            async with world.connection() as connection:
                await open_stream(client, connection)
                yield world, connection, serving


async def test_a_stopped_server_lets_an_open_stream_end() -> None:
    client = FakeEngineClient()
    async with stream_being_read(client) as (world, connection, serving):
        world.server.stop()
        client.generations[0].push(chunk("the end", finish=STOP))
        await connection.read_until(b"the end")
        await connection.read_until(b"[DONE]")
        await serving
    assert not client.generations[0].is_aborted


async def test_a_server_stopped_with_force_hangs_up_and_aborts() -> None:
    client = FakeEngineClient()
    async with stream_being_read(client) as (world, _, serving):
        world.server.stop(force=True)
        await serving
        await client.generations[0].was_aborted.wait()


# The loop of a real server, which runs timers between two reads.
@pytest.mark.parametrize("anyio_backend", [("asyncio", {"use_uvloop": True})])
async def test_a_request_that_came_while_the_server_had_no_core_is_answered_though_its_time_is_over() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as sock,
        socket.create_connection(sock.getsockname()) as idle,
        socket.create_connection(sock.getsockname()) as other,
    ):

        def lose_the_core(status: int) -> None:
            idle.sendall(b"GET /health HTTP/1.1\r\n\r\n")
            time.sleep(0.5)  # nobody waits here: it is what the server goes through

        app = build_app(FakeEngineClient(), ServerArgs())
        server = HttpServer(app, sock, keep_alive_s=0.3, on_refusal=lose_the_core)
        reader, writer = await asyncio.open_connection(sock=idle)
        other.sendall(b"no HTTP\r\n\r\n")
        async with asyncio.timeout(DEADLINE_S), asyncio.TaskGroup() as tasks:
            tasks.create_task(server.serve())
            (answer,) = await asyncio.gather(reader.readline(), return_exceptions=True)
            writer.close()
            server.stop()
    assert answer == b"HTTP/1.1 200 OK\r\n"
