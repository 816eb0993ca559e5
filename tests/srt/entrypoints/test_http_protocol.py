"""The parser's own bounds, and what it says to what is no HTTP/1.1."""

import json

import pytest

from srt.entrypoints.http_protocol import MAX_DISCARDED_BYTES, MAX_HEAD_BYTES
from srt.server_args.server_args import ServerArgs
from tests.fakes.engine_client import FakeEngineClient
from tests.fakes.http_world import Connection, serving

pytestmark = pytest.mark.anyio


async def read_error(connection: Connection) -> tuple[int, str]:
    status = await connection.read_status()
    await connection.read_until(b"\r\n\r\n")
    return status, json.loads(await connection.reader.read())["error"]["type"]


async def test_a_header_without_end_is_a_431() -> None:
    async with serving(FakeEngineClient()) as world, world.connection() as connection:
        connection.writer.write(b"GET /health HTTP/1.1\r\nX-Long: ")
        connection.writer.write(b"x" * (MAX_HEAD_BYTES + 1))
        assert await read_error(connection) == (431, "invalid_request_error")


async def test_headers_without_end_are_a_431() -> None:
    async with serving(FakeEngineClient()) as world, world.connection() as connection:
        connection.writer.write(b"GET /health HTTP/1.1\r\n")
        connection.writer.write(b"a: b\r\n" * (MAX_HEAD_BYTES // 6 + 1))
        assert await read_error(connection) == (431, "invalid_request_error")


async def test_a_body_longer_than_any_head_is_fine() -> None:
    async with serving(FakeEngineClient()) as world, world.connection() as connection:
        connection.post("/tokenize", {"prompt": "x" * 3 * MAX_HEAD_BYTES})
        assert await connection.read_status() == 200


async def test_heads_of_one_connection_are_not_added_up() -> None:
    async with serving(FakeEngineClient()) as world, world.connection() as connection:
        for _ in range(4):
            connection.writer.write(
                b"GET /health HTTP/1.1\r\nX-Long: %b\r\n\r\n" % (b"x" * (MAX_HEAD_BYTES // 2))
            )
            assert await connection.read_status() == 200
            await connection.read_until(b'{"status":"ok"}')


async def test_an_http2_preface_is_a_400() -> None:
    async with serving(FakeEngineClient()) as world, world.connection() as connection:
        connection.writer.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        assert await read_error(connection) == (400, "invalid_request_error")


async def test_a_client_that_is_still_sending_sees_its_413() -> None:
    args = ServerArgs(max_body_bytes=1000)
    async with serving(FakeEngineClient(), args) as world, world.connection() as connection:
        connection.writer.write(b"POST /tokenize HTTP/1.1\r\nHost: x\r\nContent-Length: 5000000\r\n\r\n")
        for _ in range(50):
            connection.writer.write(b"x" * 100_000)
            await connection.writer.drain()
        assert await connection.read_status() == 413


async def send_without_end(connection: Connection, num_bytes: int) -> None:
    connection.writer.write(b"POST /tokenize HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
    part = b"400000\r\n" + b"x" * 0x400000 + b"\r\n"
    for _ in range(num_bytes // len(part)):
        connection.writer.write(part)
        await connection.writer.drain()


async def test_a_refused_body_without_end_ends_the_connection() -> None:
    args = ServerArgs(max_body_bytes=1000)
    async with serving(FakeEngineClient(), args) as world, world.connection() as connection:
        with pytest.raises(ConnectionError):
            await send_without_end(connection, 4 * MAX_DISCARDED_BYTES)
