"""Clients of scripts/soak.py that no client library would be: each speaks to a socket, and says how it went."""

import asyncio
import json
import random
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

SLOW_READ_BYTES, SLOW_PAUSE_S = 200, 0.02
# Longer than any time limit of the server that is soaked.
PATIENCE_S = 90.0
HEAD = (
    "POST /v1/completions HTTP/1.1\r\nHost: soak\r\nContent-Type: application/json\r\nConnection: close\r\n"
)


class Unexpected(Exception):
    """Something that no client should see."""


class RudeClients:
    """`kinds` are what they do, and how often each is wanted. `body` makes the body of a whole request."""

    def __init__(
        self, host: str, port: int, draw: random.Random, body: Callable[..., dict[str, Any]]
    ) -> None:
        self._address = host, port
        self._draw = draw
        self._body = body

    @property
    def kinds(self) -> dict[Callable[[], Coroutine[Any, Any, str]], int]:
        """With their weights."""
        return {
            self.reads_slowly: 5,
            self.stops_in_mid_body: 4,
            self.stops_in_mid_head: 2,
            self.floods_with_headers: 2,
            self.never_ends_a_header: 1,
            self.sends_a_byte_a_second: 1,
            self.is_silent_in_mid_body: 1,
            self.speaks_another_language: 1,
        }

    async def reads_slowly(self) -> str:
        """A stream, 200 bytes at a time, with pauses."""
        body = json.dumps(self._body(stream=True))
        async with self._connected(f"{HEAD}Content-Length: {len(body)}\r\n\r\n{body}") as (reader, _):
            received = b""
            while piece := await asyncio.wait_for(reader.read(SLOW_READ_BYTES), PATIENCE_S):
                received += piece
                await asyncio.sleep(SLOW_PAUSE_S)
        if received.startswith(b"HTTP/1.1 503"):
            return "refused"
        if b"data: [DONE]" not in received:
            raise Unexpected(f"a slow stream that ends with {received[-80:]!r}")
        return "whole"

    async def stops_in_mid_body(self) -> str:
        """Announces 5,000 bytes, sends a few, and hangs up."""
        async with self._connected(f'{HEAD}Content-Length: 5000\r\n\r\n{{"prompt": "never whole'):
            return "left"

    async def stops_in_mid_head(self) -> str:
        """Hangs up before there is a request."""
        async with self._connected(HEAD[: self._draw.randrange(1, len(HEAD))]):
            return "left"

    async def floods_with_headers(self) -> str:
        """More of them than anybody needs."""
        headers = "".join(f"X-{i}: {'a' * 20}\r\n" for i in range(400))
        async with self._connected(f"{HEAD}{headers}Content-Length: 0\r\n\r\n") as (reader, _):
            return await _status(reader, 431)

    async def never_ends_a_header(self) -> str:
        """One that goes on and on."""
        async with self._connected(f"{HEAD}X-Long: ") as (reader, writer):
            # By its length, or where nothing gets on, by its time.
            answered = asyncio.create_task(_status(reader, 431, 408))
            try:
                while not answered.done():
                    writer.write(b"a" * 4096)
                    await writer.drain()
                    await asyncio.sleep(0)
            except ConnectionError:
                pass  # it has been hung up on, before or behind the answer
            try:
                return await answered
            except ConnectionError:
                return "reset"

    async def sends_a_byte_a_second(self) -> str:
        """A head that would take minutes."""
        async with self._connected("") as (reader, writer):
            answered = asyncio.create_task(_status(reader, 408))
            for byte in HEAD.encode():
                if answered.done():
                    break
                writer.write(bytes([byte]))
                await asyncio.wait({answered}, timeout=1.0)
            return await asyncio.wait_for(answered, PATIENCE_S)

    async def is_silent_in_mid_body(self) -> str:
        """Announces a body, and then waits for the other side to lose patience."""
        async with self._connected(f"{HEAD}Content-Length: 100\r\n\r\n{{") as (reader, _):
            return await _status(reader, 408)

    async def speaks_another_language(self) -> str:
        """No HTTP at all."""
        async with self._connected("\x16\x03\x01 hello, is this TLS?\r\n\r\n") as (reader, _):
            return await _status(reader, 400)

    @asynccontextmanager
    async def _connected(self, sent: str) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        reader, writer = await asyncio.open_connection(*self._address, limit=4096)
        try:
            writer.write(sent.encode("latin-1"))
            await writer.drain()
            yield reader, writer
        finally:
            writer.close()


async def _status(reader: asyncio.StreamReader, *due: int) -> str:
    line = await asyncio.wait_for(reader.readline(), PATIENCE_S)
    for status in due:
        if line.startswith(b"HTTP/1.1 %d " % status):
            return str(status)
    raise Unexpected(f"{line!r} where {due} was due")
