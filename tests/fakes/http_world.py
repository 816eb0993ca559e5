"""The HTTP side around a FakeEngineClient: asked in memory, or as a real server on loopback."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
from openai import AsyncOpenAI

from srt.entrypoints.http_server import HttpServer, build_app
from srt.server_args.server_args import ServerArgs
from tests.fakes.engine_client import FakeEngineClient

CHAT: dict[str, Any] = {"messages": [{"role": "user", "content": "hi"}]}
COMPLETION: dict[str, Any] = {"prompt": "hi"}
NATIVE: dict[str, Any] = {"text": "hi"}

# A test that waits for what never happens fails instead of hanging.
DEADLINE_S = 30.0

BODIES = {"/v1/chat/completions": CHAT, "/v1/completions": COMPLETION, "/generate": NATIVE}


async def ask(
    client: FakeEngineClient,
    method: str,
    path: str,
    *,
    args: ServerArgs | None = None,
    **request: Any,
) -> httpx.Response:
    """One request, in memory. For streams too, whose events all come at once here."""
    transport = httpx.ASGITransport(build_app(client, args or ServerArgs()))
    async with (
        asyncio.timeout(DEADLINE_S),
        httpx.AsyncClient(transport=transport, base_url="http://test") as http,
    ):
        return await http.request(method, path, **request)


async def post(client: FakeEngineClient, path: str, body: Any, **request: Any) -> httpx.Response:
    """A JSON body, posted in memory."""
    return await ask(client, "POST", path, json=body, **request)


def error_of(response: httpx.Response) -> dict[str, Any]:
    """The error object, after a look at its shape."""
    assert set(response.json()) == {"error"}, response.text
    error: dict[str, Any] = response.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["message"]
    return error


def events_of(text: str) -> list[Any]:
    """The data of each server-sent event, parsed; `[DONE]` stays a string."""
    assert text.endswith("\n\n")
    datas = [event.removeprefix("data: ") for event in text.removesuffix("\n\n").split("\n\n")]
    return [data if data == "[DONE]" else json.loads(data) for data in datas]


class World:
    """A server on loopback, with an OpenAI client for it."""

    def __init__(self, client: FakeEngineClient, server: HttpServer, port: int) -> None:
        self.client = client
        self.server = server
        self.port = port
        self.url = f"http://127.0.0.1:{port}"

    @asynccontextmanager
    async def openai(self, api_key: str = "none") -> AsyncIterator[AsyncOpenAI]:
        async with AsyncOpenAI(base_url=f"{self.url}/v1", api_key=api_key, max_retries=0) as openai:
            yield openai

    @asynccontextmanager
    async def connection(self) -> AsyncIterator["Connection"]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            yield Connection(reader, writer)
        finally:
            writer.close()
            await asyncio.gather(writer.wait_closed(), return_exceptions=True)


class Connection:
    """A bare socket, for what no HTTP client would do."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def post(self, path: str, body: Any) -> None:
        data = json.dumps(body).encode()
        head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        self.writer.write(f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data)

    async def read_status(self) -> int:
        return int((await self.reader.readline()).split()[1])

    async def read_until(self, end: bytes) -> bytes:
        return await self.reader.readuntil(end)

    def hang_up(self) -> None:
        self.writer.close()


@asynccontextmanager
async def serving(client: FakeEngineClient, args: ServerArgs | None = None) -> AsyncIterator[World]:
    """A real server on a free port of 127.0.0.1."""
    with socket.create_server(("127.0.0.1", 0)) as sock:
        args = args or ServerArgs()
        server = HttpServer(
            build_app(client, args),
            sock,
            read_timeout_s=args.http_read_timeout,
            on_refusal=client.counts.http.refuse,
        )
        async with asyncio.timeout(DEADLINE_S), asyncio.TaskGroup() as tasks:
            tasks.create_task(server.serve())
            try:
                yield World(client, server, sock.getsockname()[1])
            finally:
                server.stop()
