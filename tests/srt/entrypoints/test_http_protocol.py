"""The parser's own bounds, and what it says to what is no HTTP/1.1."""

import asyncio
import gc
import json
import weakref

import pytest

from srt.entrypoints.http_protocol import MAX_DISCARDED_BYTES, MAX_HEAD_BYTES
from srt.server_args.server_args import ServerArgs
from tests.fakes.engine_client import FakeEngineClient, chunk
from tests.fakes.http_world import Connection, serving
from tests.managers.front import until

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


H2C = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAEAAEAA\r\n"


@pytest.mark.parametrize(
    "offer", [H2C, b"Connection: Upgrade\r\nUpgrade: websocket\r\n"], ids=["h2c", "websocket"]
)
@pytest.mark.parametrize("part_len", [1, 40, 10_000])
async def test_an_offer_to_upgrade_is_declined_and_its_body_is_read(offer: bytes, part_len: int) -> None:
    """Java's HTTP client makes the offer with its first request, body included."""
    body = b'{"prompt": "Hello"}'
    head = b"POST /tokenize HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: %d\r\n" % len(body)
    data = head + offer + b"\r\n" + body
    async with serving(FakeEngineClient()) as world, world.connection() as connection:
        for start in range(0, len(data), part_len):
            connection.writer.write(data[start : start + part_len])
            await connection.writer.drain()
        assert await connection.read_status() == 200
        await connection.read_until(b'"max_model_len"')
        await connection.read_until(b"}")
        connection.writer.write(b"GET /health HTTP/1.1\r\n\r\n")  # the connection goes on as it was
        assert await connection.read_status() == 200


async def test_what_comes_behind_an_offer_to_upgrade_is_served_too() -> None:
    async with serving(FakeEngineClient()) as world, world.connection() as connection:
        connection.writer.write(b"GET /nothing HTTP/1.1\r\n" + H2C + b"\r\nGET /health HTTP/1.1\r\n\r\n")
        assert await connection.read_status() == 404
        await connection.read_until(b'"code":null}}')
        assert await connection.read_status() == 200


async def test_very_many_offers_at_once_are_declined_one_by_one() -> None:
    async with serving(FakeEngineClient()) as world, world.connection() as connection:
        connection.writer.write((b"GET /health HTTP/1.1\r\n" + H2C + b"\r\n") * 3000)
        for _ in range(3000):
            assert await connection.read_status() == 200
            await connection.read_until(b'{"status":"ok"}')


async def test_connect_is_a_405() -> None:
    async with serving(FakeEngineClient()) as world, world.connection() as connection:
        connection.writer.write(b"CONNECT /health HTTP/1.1\r\n\r\n")
        assert await connection.read_status() == 405


@pytest.mark.parametrize(
    "nonsense", [b"nonsense\r\n\r\n", b"GET / HTTP/1.1\r\nX-Long: " + b"x" * (MAX_HEAD_BYTES + 1)]
)
async def test_nonsense_in_the_middle_of_a_stream_adds_nothing_to_it(nonsense: bytes) -> None:
    client = FakeEngineClient()
    async with serving(client) as world, world.connection() as connection:
        connection.post("/v1/completions", {"prompt": "Hello", "stream": True})
        generation = await client.next_generation()
        generation.push(chunk("one"))
        await connection.read_until(b'"one"')
        connection.writer.write(nonsense)
        rest = await connection.reader.read()
        assert b"HTTP/1.1" not in rest


async def test_nonsense_behind_a_request_is_not_its_answer() -> None:
    client = FakeEngineClient()
    async with serving(client) as world, world.connection() as connection:
        connection.post("/v1/completions", {"prompt": "Hello"})
        await client.next_generation()
        connection.writer.write(b"nonsense\r\n\r\n")
        assert await connection.reader.read() == b""


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


@pytest.mark.parametrize(
    "sent",
    [
        b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /hea",
        b"nonsense\r\n\r\n",
        b"POST /generate HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{",
    ],
)
async def test_a_connection_that_is_over_is_gone_without_the_collector(sent: bytes) -> None:
    gc.collect()
    gc.disable()
    try:
        async with serving(FakeEngineClient()) as world:
            connections = world.server._server.server_state.connections
            async with world.connection() as connection:
                connection.writer.write(sent)
                await until(lambda: bool(connections))
                protocol = weakref.ref(next(iter(connections)))
            await until(lambda: protocol() is None)
    finally:
        gc.enable()


async def test_who_hangs_up_with_more_requests_in_line_has_only_left(
    caplog: pytest.LogCaptureFixture,
) -> None:
    client = FakeEngineClient()
    async with serving(client) as world, world.connection() as connection:
        connection.post("/v1/completions", {"prompt": "Hello", "stream": True})
        generation = await client.next_generation()
        generation.push(chunk("first"))
        await connection.read_until(b'"first"')
        for text in (
            "second",
            "third",
            "fourth",
        ):  # when one is read, those sent before have been read as well
            connection.post("/v1/completions", {"prompt": "Hello", "stream": True})
            generation.push(chunk(text))
            await connection.read_until(text.encode())
        connection.hang_up()
        while not generation.is_aborted:  # what is written to nobody is how it is noticed
            generation.push(chunk("text"))
            await asyncio.sleep(0)
    assert len(client.generations) == 1
    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == []
