"""Clients that send too slowly, speak HTTP/1.0, or ask several things at once."""

import asyncio
import json

import pytest

from srt.entrypoints.http_protocol import MAX_HEADERS
from srt.server_args.server_args import ServerArgs
from tests.fakes.engine_client import LENGTH, FakeEngineClient, chunk
from tests.fakes.http_world import Connection, serving

pytestmark = pytest.mark.anyio

IMPATIENT = ServerArgs(http_read_timeout=0.05)
HEALTHY = b'{"status":"ok"}'


async def read_error(connection: Connection) -> tuple[int, str]:
    """Status and message of the connection's last answer."""
    status = await connection.read_status()
    await connection.read_until(b"\r\n\r\n")
    return status, json.loads(await connection.reader.read())["error"]["message"]


# Too slow.


async def test_a_head_that_is_never_whole_is_a_408_however_often_a_piece_of_it_comes() -> None:
    async with serving(FakeEngineClient(), IMPATIENT) as world, world.connection() as connection:
        connection.writer.write(b"GET /health HTTP/1.1\r\n")

        async def drip() -> None:
            while True:
                connection.writer.write(b"X-A: b\r\n")
                await asyncio.sleep(0.01)

        dripping = asyncio.create_task(drip())
        status, message = await read_error(connection)
        dripping.cancel()
        assert (status, "head" in message) == (408, True)


async def test_a_body_that_stops_half_way_is_a_408() -> None:
    async with serving(FakeEngineClient(), IMPATIENT) as world, world.connection() as connection:
        connection.writer.write(
            b"POST /tokenize HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
        )
        status, message = await read_error(connection)
        assert (status, "body" in message) == (408, True)


async def test_a_body_that_comes_slowly_but_steadily_is_read() -> None:
    async with serving(FakeEngineClient(), IMPATIENT) as world, world.connection() as connection:
        body = b'{"prompt": "%b"}' % (b"x" * 20)
        head = (
            b"POST /tokenize HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
            % len(body)
        )
        connection.writer.write(head)
        for byte in body:
            connection.writer.write(bytes([byte]))
            await asyncio.sleep(0.005)  # 0.2 s in all
        assert await connection.read_status() == 200


async def test_who_never_ends_a_body_that_was_refused_already_is_sent_away_without_another_word() -> None:
    args = ServerArgs(max_body_bytes=10, http_read_timeout=0.05)
    async with serving(FakeEngineClient(), args) as world, world.connection() as connection:
        connection.writer.write(b"POST /tokenize HTTP/1.1\r\nContent-Length: 1000\r\n\r\nx")
        assert await connection.read_status() == 413
        assert b"HTTP/1.1" not in await connection.reader.read()


async def test_a_slow_next_request_does_not_cut_the_stream_before_it() -> None:
    client = FakeEngineClient()
    async with serving(client, IMPATIENT) as world, world.connection() as connection:
        connection.post("/v1/completions", {"prompt": "Hello", "stream": True})
        generation = await client.next_generation()
        generation.push(chunk("one"))
        await connection.read_until(b'"one"')
        connection.writer.write(b"GET /health HTT")
        await asyncio.sleep(0.12)
        generation.push(chunk("two", finish=LENGTH))
        await connection.read_until(b"[DONE]")


# Too many headers.


async def test_more_headers_than_anybody_needs_are_a_431() -> None:
    async with serving(FakeEngineClient()) as world, world.connection() as connection:
        connection.writer.write(b"GET /health HTTP/1.1\r\n" + b"a: b\r\n" * (MAX_HEADERS + 1) + b"\r\n")
        status, message = await read_error(connection)
        assert (status, str(MAX_HEADERS) in message) == (431, True)


async def test_as_many_headers_as_allowed_are_fine() -> None:
    async with serving(FakeEngineClient()) as world, world.connection() as connection:
        connection.writer.write(b"GET /health HTTP/1.1\r\n" + b"a: b\r\n" * MAX_HEADERS + b"\r\n")
        assert await connection.read_status() == 200


# HTTP/1.0: what nginx speaks to a server behind it, unless told otherwise.


async def test_a_stream_to_a_client_of_http_1_0_is_not_chunked_and_ends_with_the_connection() -> None:
    client = FakeEngineClient()
    async with serving(client) as world, world.connection() as connection:
        body = b'{"prompt": "Hello", "stream": true}'
        connection.writer.write(
            b"POST /v1/completions HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
            % (len(body), body)
        )
        generation = await client.next_generation()
        generation.push(chunk("one"))
        assert await connection.read_status() == 200
        head = (await connection.read_until(b"\r\n\r\n")).lower()
        assert b"transfer-encoding" not in head
        assert b"connection: close" in head
        assert (await connection.read_until(b"\n\n")).startswith(b"data: {")
        generation.push(chunk("two", finish=LENGTH))
        rest = await connection.reader.read()
        events = rest.decode().strip().split("\n\n")
        assert events[-1] == "data: [DONE]"
        assert all(event.startswith("data: ") for event in events)


async def test_a_whole_answer_to_a_client_of_http_1_0_has_its_length() -> None:
    async with serving(FakeEngineClient()) as world, world.connection() as connection:
        connection.writer.write(b"GET /health HTTP/1.0\r\n\r\n")
        assert await connection.read_status() == 200
        head = (await connection.read_until(b"\r\n\r\n")).lower()
        assert b"content-length: %d" % len(HEALTHY) in head
        assert await connection.reader.read() == HEALTHY


# Several at once.


async def test_pipelined_requests_are_answered_in_their_order() -> None:
    async with serving(FakeEngineClient()) as world, world.connection() as connection:
        body = b'{"prompt": "ab"}'
        post = (
            b"POST /tokenize HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
            % (len(body), body)
        )
        connection.writer.write((post + b"GET /nothing HTTP/1.1\r\n\r\n") * 20)
        for _ in range(20):
            assert await connection.read_status() == 200
            await connection.read_until(b"}")
            assert await connection.read_status() == 404
            await connection.read_until(b'"code":null}}')


async def test_a_client_that_asks_before_it_sends_its_body_is_told_to_go_on() -> None:
    async with serving(FakeEngineClient()) as world, world.connection() as connection:
        body = b'{"prompt": "ab"}'
        connection.writer.write(
            b"POST /tokenize HTTP/1.1\r\nContent-Type: application/json\r\nExpect: 100-continue\r\n"
            b"Content-Length: %d\r\n\r\n" % len(body)
        )
        assert await connection.read_status() == 100
        await connection.read_until(b"\r\n")
        connection.writer.write(body)
        assert await connection.read_status() == 200


async def test_a_client_that_asks_about_too_long_a_body_is_refused_before_it_sends_it() -> None:
    args = ServerArgs(max_body_bytes=10)
    async with serving(FakeEngineClient(), args) as world, world.connection() as connection:
        connection.writer.write(
            b"POST /tokenize HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 1000\r\n\r\n"
        )
        assert await connection.read_status() == 413
