"""The client of scripts/bench_serving.py: send requests, note when text arrives, and cost little beside the server."""

import asyncio
import dataclasses
import json
import re
import ssl
import time
from collections.abc import Callable, Sequence
from typing import Any, cast
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

HAS_TEXT = re.compile(rb'"(?:content|text|reasoning|reasoning_content|arguments)":\s*"(?!")')
USAGE = re.compile(rb'"usage":\s*\{.*')


@dataclasses.dataclass
class Answer:
    """One request's stream, as it was seen. Times are in seconds on the client's clock."""

    sent_at: float = 0.0
    ended_at: float = 0.0
    text_arrivals: list[float] = dataclasses.field(default_factory=list)
    num_events: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    error: str | None = None


class ChunkedBody:
    """Takes a body apart that comes with `Transfer-Encoding: chunked`, however the network cut it."""

    def __init__(self) -> None:
        self._line = b""  # the beginning of a size line or a trailer
        self._num_missing = 0  # bytes of this chunk, with the line break behind it
        self._is_trailer = False
        self.is_complete = False

    def feed(self, data: bytes) -> bytes:
        """The payload in `data`."""
        data = self._line + data
        pieces: list[bytes] = []
        position = 0
        while position < len(data):
            if self._num_missing:
                piece = data[position : position + self._num_missing]
                pieces.append(piece[: max(0, self._num_missing - 2)])
                self._num_missing -= len(piece)
                position += len(piece)
                continue
            line_end = data.find(b"\r\n", position)
            if line_end < 0:
                break
            line = data[position:line_end]
            position = line_end + 2
            if self._is_trailer:
                self.is_complete = not line
            else:
                size = int(line.split(b";", 1)[0], 16)
                self._is_trailer = size == 0
                self._num_missing = size + 2 if size else 0
        self._line = data[position:]
        return b"".join(pieces)


class StreamReader(asyncio.Protocol):
    """One connection: writes a request, notes when text arrives, and does little else."""

    def __init__(self) -> None:
        self.is_reusable = False
        self._transport: asyncio.Transport | None = None
        self._done: asyncio.Future[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ready for the first request."""
        self._transport = cast("asyncio.Transport", transport)
        self.is_reusable = True

    async def ask(self, request: bytes, timeout_s: float) -> Answer:
        """Send one request and read its stream to the end. An error is part of the answer."""
        assert self._transport is not None
        self._answer = Answer()
        self._done = asyncio.get_running_loop().create_future()
        self._head: bytes | None = b""
        self._body: ChunkedBody | None = None
        self._line = b""
        self._is_whole = False
        self._answer.sent_at = time.perf_counter()
        self._transport.write(request)
        try:
            await asyncio.wait_for(self._done, timeout_s)
        except TimeoutError:
            self._answer.error = f"no end of stream within {timeout_s:g} s"
            self.close()
        return self._answer

    def close(self) -> None:
        """Hang up."""
        self.is_reusable = False
        if self._transport is not None:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        """Whatever came: the head first, then events."""
        if self._done is None or self._done.done():
            return
        now = time.perf_counter()
        if self._head is not None:
            self._head += data
            head, separator, data = self._head.partition(b"\r\n\r\n")
            if not separator or not self._read_head(head.lower(), data):
                return
        self._read_events(data if self._body is None else self._body.feed(data), now)
        if self._is_whole if self._body is None else self._body.is_complete:
            self._end()

    def connection_lost(self, exc: Exception | None) -> None:
        """The end of a request, too, if one is running."""
        self.is_reusable = False
        if self._done is not None and not self._done.done():
            self._end()

    def _read_head(self, head: bytes, rest: bytes) -> bool:
        self._head = None
        status = head.split(b" ", 2)[1].decode()
        if status == "200" and b"text/event-stream" in head:
            self._body = ChunkedBody() if b"transfer-encoding: chunked" in head else None
            self.is_reusable = self._body is not None and b"\nconnection: close" not in head
            return True
        # For a human to read: what came with the head will do.
        self._answer.error = f"HTTP {status}, no event stream: {rest[:300].decode(errors='replace').strip()}"
        self._end()
        self.close()
        return False

    def _read_events(self, payload: bytes, now: float) -> None:
        *lines, self._line = (self._line + payload).split(b"\n")
        num_with_text = 0
        for line in lines:
            if not line.startswith(b"data:"):
                continue
            if HAS_TEXT.search(line):
                num_with_text += 1
            else:
                self._read_event_without_text(line)
        if num_with_text:
            self._answer.num_events += num_with_text
            self._answer.text_arrivals.append(now)

    def _read_event_without_text(self, line: bytes) -> None:
        if b"[DONE]" in line:
            self._is_whole = True
        elif b'"error"' in line:
            self._answer.error = line[5:300].decode(errors="replace").strip()
        elif usage := USAGE.search(line):
            self._read_usage(usage[0])

    def _read_usage(self, usage: bytes) -> None:
        for name in ("prompt_tokens", "completion_tokens", "cached_tokens"):
            if found := re.search(rb'"%b":\s*(\d+)' % name.encode(), usage):
                setattr(self._answer, name, int(found[1]))

    def _end(self) -> None:
        assert self._done is not None
        self._answer.ended_at = time.perf_counter()
        if not self._is_whole and self._answer.error is None:
            self._answer.error = "the connection closed before [DONE]"
        if not self._answer.completion_tokens:
            self._answer.completion_tokens = self._answer.num_events
        self._done.set_result(None)


class Target:
    """Where the server is, and how a request to it is spelled. `keeps_alive`: a connection serves many requests."""

    def __init__(self, base_url: str, api_key: str | None, *, keeps_alive: bool = True) -> None:
        url = urlsplit(base_url if "://" in base_url else f"http://{base_url}")
        self.host = url.hostname or "127.0.0.1"
        self.tls = ssl.create_default_context() if url.scheme == "https" else None
        self.port = url.port or (443 if self.tls else 80)
        self.root = url.path.rstrip("/").removesuffix("/v1")
        self.url = f"{url.scheme}://{url.netloc}{self.root}"
        self.headers = {"Host": url.netloc, "Content-Type": "application/json", "Accept": "text/event-stream"}
        if api_key:
            self.headers["Authorization"] = f"Bearer {api_key}"
        self.keeps_alive = keeps_alive
        if not keeps_alive:
            self.headers["Connection"] = "close"

    def encode(self, api: str, body: dict[str, Any]) -> bytes:
        """The bytes of one POST."""
        path = f"{self.root}/v1/{'chat/' if api == 'chat' else ''}completions"
        content = json.dumps(body, separators=(",", ":")).encode()
        headers = {**self.headers, "Content-Length": str(len(content))}
        lines = [f"POST {path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
        return ("\r\n".join(lines) + "\r\n\r\n").encode() + content

    async def connect(self) -> StreamReader:
        """A fresh connection."""
        loop = asyncio.get_running_loop()
        _, reader = await loop.create_connection(StreamReader, self.host, self.port, ssl=self.tls)
        return reader

    def first_model(self) -> str:
        """The first name in /v1/models."""
        request = Request(f"{self.url}/v1/models", headers=self.headers)
        with urlopen(request, timeout=30) as response:
            return str(json.load(response)["data"][0]["id"])


async def send_all(
    target: Target,
    requests: Sequence[bytes],
    concurrency: int,
    timeout_s: float,
    on_answer: Callable[[Answer], None],
) -> list[Answer]:
    """Every request, at most `concurrency` at once, each worker on one connection as long as it lasts."""
    answers: list[Answer] = []
    pending = iter(requests)

    async def work() -> None:
        reader: StreamReader | None = None
        for request in pending:
            try:
                if reader is not None and not target.keeps_alive:
                    reader.close()
                if reader is None or not reader.is_reusable:
                    reader = await target.connect()
                answer = await reader.ask(request, timeout_s)
            except OSError as error:
                answer = Answer(error=f"cannot connect: {error}")
            answers.append(answer)
            on_answer(answer)
        if reader is not None:
            reader.close()

    async with asyncio.TaskGroup() as tasks:
        for _ in range(min(concurrency, len(requests))):
            tasks.create_task(work())
    return answers
