"""Stopping: open streams may end; with force they are hung up on."""

import asyncio
import socket

import pytest

from srt.entrypoints.http_server import HttpServer, build_app
from srt.server_args.server_args import ServerArgs
from tests.fakes.engine_client import STOP, FakeEngineClient, chunk
from tests.fakes.http_world import NATIVE, Connection, World

pytestmark = pytest.mark.anyio


async def open_stream(client: FakeEngineClient, connection: Connection) -> None:
    connection.post("/generate", NATIVE | {"stream": True})
    generation = await client.next_generation()
    generation.push(chunk("a"))
    await connection.read_until(b"data: ")


async def test_a_stopped_server_lets_an_open_stream_end() -> None:
    client = FakeEngineClient()
    with socket.create_server(("127.0.0.1", 0)) as sock:
        server = HttpServer(build_app(client, ServerArgs()), sock)
        serving = asyncio.create_task(server.serve())
        async with World(client, server, sock.getsockname()[1]).connection() as connection:
            await open_stream(client, connection)
            server.stop()
            client.generations[0].push(chunk("the end", finish=STOP))
            await connection.read_until(b"the end")
            await connection.read_until(b"[DONE]")
            await serving
    assert not client.generations[0].is_aborted


async def test_a_server_stopped_with_force_hangs_up_and_aborts() -> None:
    client = FakeEngineClient()
    with socket.create_server(("127.0.0.1", 0)) as sock:
        server = HttpServer(build_app(client, ServerArgs()), sock)
        serving = asyncio.create_task(server.serve())
        async with World(client, server, sock.getsockname()[1]).connection() as connection:
            await open_stream(client, connection)
            server.stop(force=True)
            await serving
            await client.generations[0].was_aborted.wait()
