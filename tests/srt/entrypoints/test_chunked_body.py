"""The short way of a stream's events to the socket: the same bytes, whoever reads slowly or speaks HTTP/1.0."""

import asyncio
import json

import pytest

from tests.fakes.engine_client import LENGTH, FakeEngineClient, FakeGeneration, chunk
from tests.fakes.http_world import Connection, serving

pytestmark = pytest.mark.anyio

STREAM = {"prompt": "hello", "stream": True}
DONE = b"data: [DONE]\n\n"


async def read_part(connection: Connection) -> bytes:
    """One chunk of a body; nothing at its end."""
    size = int(await connection.read_until(b"\r\n"), 16)
    return (await connection.reader.readexactly(size + 2))[:-2]


async def read_text(connection: Connection) -> str:
    """What is left of a stream."""
    body = b""
    while part := await read_part(connection):
        body += part
    return "".join(texts_of(body))


def texts_of(body: bytes) -> list[str]:
    events = body.removesuffix(DONE).split(b"\n\n")[:-1]
    return [json.loads(event.removeprefix(b"data: "))["choices"][0]["text"] for event in events]


async def begin(client: FakeEngineClient, connection: Connection) -> FakeGeneration:
    """A stream whose first event has been read, and which waits for more."""
    connection.post("/v1/completions", STREAM)
    generation = await client.next_generation()
    generation.push(chunk("first"))
    assert await connection.read_status() == 200
    await connection.read_until(b"\r\n\r\n")
    assert b'"first"' in await read_part(connection)
    return generation


async def test_events_that_go_the_short_way_are_what_they_would_have_been() -> None:
    client = FakeEngineClient()
    async with serving(client) as world, world.connection() as connection:
        generation = await begin(client, connection)
        for text in ("a", "", "b\n", "é\r\n"):
            generation.push(chunk(text))
        generation.push(chunk("z", finish=LENGTH))
        assert await read_text(connection) == "ab\né\r\nz"
        assert generation.num_sunk == 4


async def test_a_client_that_stops_reading_gets_all_of_it_in_order_once_it_reads() -> None:
    client = FakeEngineClient()
    async with serving(client) as world, world.connection() as connection:
        generation = await begin(client, connection)
        pieces = [f"{number:03}" * 30_000 for number in range(160)]  # more than two sockets hold
        for piece in pieces:
            generation.push(chunk(piece))
            await asyncio.sleep(0)
        generation.push(chunk("end", finish=LENGTH))
        assert await read_text(connection) == "".join(pieces) + "end"
        assert 0 < generation.num_sunk < len(pieces), "it must stop when the client does"


async def test_a_client_of_http_1_0_is_sent_no_chunks() -> None:
    client = FakeEngineClient()
    async with serving(client) as world, world.connection() as connection:
        body = json.dumps(STREAM).encode()
        head = (
            b"POST /v1/completions HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
        )
        connection.writer.write(head % len(body) + body)
        generation = await client.next_generation()
        generation.push(chunk("a"))
        await connection.read_until(b"\n\n")
        generation.push(chunk("b"))
        generation.push(chunk("c", finish=LENGTH))
        assert "".join(texts_of(await connection.reader.read())) == "bc"
        assert generation.num_sunk == 0


async def test_a_connection_that_cannot_be_written_to_ends_and_those_behind_it_get_theirs() -> None:
    client = FakeEngineClient()
    async with serving(client) as world, world.connection() as connection, world.connection() as other:
        generation, sound = await begin(client, connection), await begin(client, other)
        (broken,) = [
            protocol.transport
            for protocol in world.server._server.server_state.connections
            if protocol.transport.get_extra_info("peername") == connection.writer.get_extra_info("sockname")
        ]
        broken.write_eof()  # from here on, a write is an error
        generation.push(chunk("lost"))
        sound.push(chunk("a"))
        sound.push(chunk("z", finish=LENGTH))
        assert await read_text(other) == "az"
        await generation.was_aborted.wait()
