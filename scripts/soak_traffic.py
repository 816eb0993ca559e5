"""The clients of scripts/soak.py: good ones, bad ones and rude ones. Each says how it went, or raises."""

import asyncio
import json
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import httpx

from soak_rude import RudeClients, Unexpected

WORDS = ("time", "river", "house", "light", "stone", "paper", "north", "wheel", "music", "bread")
BURST = 48
AT_ONCE = 50  # idle connections that are being opened
REFUSED = 503
NO_LIMIT = httpx.Limits(max_connections=None, max_keepalive_connections=None, keepalive_expiry=5)
FORMS = ("[ab]{4,20}", "(yes|no|maybe)", "[0-9]{3}-[0-9]{4}", '\\{"n": [0-9]{1,5}\\}')


class Traffic:
    """Mixed requests to one server, of a fixed seed, `concurrency` at once. `seen` counts how each kind went."""

    def __init__(self, url: str, host: str, port: int, *, seed: int, concurrency: int) -> None:
        self.seen: Counter[str] = Counter()
        self.surprises: list[str] = []
        self._url = url
        self._draw = random.Random(seed)
        self._concurrency = concurrency
        kinds: dict[Callable[[httpx.AsyncClient], Awaitable[str]], int] = {
            self._chat: 20,
            self._completion_stream: 25,
            self._generate: 15,
            self._leaves: 15,
            self._bad_body: 8,
            self._form: 5,
            self._aborted: 4,
            self._burst: 1,
        }
        rude = RudeClients(
            host, port, self._draw, lambda **fields: self._body(prompt=self._prompt(), **fields)
        )
        self._kinds: list[tuple[str, Callable[[httpx.AsyncClient], Awaitable[str]]]] = [
            *((kind.__name__.strip("_"), kind) for kind in kinds),
            *((kind.__name__, _without_library(kind)) for kind in rude.kinds),
        ]
        self._weights = [*kinds.values(), *rude.kinds.values()]

    async def run(self, seconds: float, max_requests: int) -> None:
        """Until the time is over or so many were sent; returns when the last has had its end."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        left = max_requests

        async def work() -> None:
            nonlocal left
            async with self._client() as client:
                while left > 0 and loop.time() < deadline:
                    left -= 1
                    await self._one(client)

        async with asyncio.TaskGroup() as tasks:
            for _ in range(self._concurrency):
                tasks.create_task(work())

    def _client(self) -> httpx.AsyncClient:
        """For one at a time.

        httpx closes connections that have been idle for 5 s when anybody asks for one, and does so one turn of the
        loop after the other. Where a turn takes seconds, it closes one that another task has begun to use meanwhile,
        who gets a ReadError that no server has had a part in.
        """
        return httpx.AsyncClient(base_url=self._url, timeout=120, limits=NO_LIMIT, verify=False)

    async def _one(self, client: httpx.AsyncClient) -> None:
        ((name, kind),) = self._draw.choices(self._kinds, self._weights)
        begun = time.monotonic()
        try:
            self.seen[f"{name}: {await kind(client)}"] += 1
        except (Unexpected, httpx.HTTPError, OSError) as error:
            self.seen[f"{name}: UNEXPECTED"] += 1
            took = f"after {time.monotonic() - begun:.1f} s, {time.strftime('%H:%M:%S')}"
            self.surprises.append(f"{name}: {_chain(error)} {took}")

    def _prompt(self) -> str:
        # A few beginnings that many share, and ends that nobody does.
        beginning = " ".join(random.Random(self._draw.randrange(8)).choices(WORDS, k=40))
        return f"{beginning} {self._draw.randrange(10**6)}"

    def _body(self, **fields: Any) -> dict[str, Any]:
        return {"model": "m", "max_tokens": self._draw.randrange(1, 60), "ignore_eos": True, **fields}

    async def _chat(self, client: httpx.AsyncClient) -> str:
        body = self._body(
            messages=[{"role": "user", "content": self._prompt()}], n=self._draw.choice((1, 1, 2))
        )
        response = await client.post("/v1/chat/completions", json=body)
        if response.status_code == REFUSED:
            return "refused"
        _expect(response, 200)
        answer = response.json()
        if any(choice["finish_reason"] != "length" for choice in answer["choices"]):
            raise Unexpected(f"an answer without its end: {response.text[:200]}")
        return "whole"

    async def _completion_stream(self, client: httpx.AsyncClient) -> str:
        body = self._body(prompt=self._prompt(), stream=True, stream_options={"include_usage": True})
        async with client.stream("POST", "/v1/completions", json=body) as response:
            if response.status_code == REFUSED:
                return "refused"
            _expect(response, 200)
            lines = [line async for line in response.aiter_lines() if line]
        if lines[-1] != "data: [DONE]" or len(lines) < 2:
            raise Unexpected(f"a stream that ends with {lines[-1]!r}")
        usage = json.loads(lines[-2].removeprefix("data: ")).get("usage") or {}
        if usage.get("completion_tokens") != body["max_tokens"]:
            raise Unexpected(f"{usage} of {body['max_tokens']} tokens")
        return "whole"

    async def _generate(self, client: httpx.AsyncClient) -> str:
        sampling = {"max_new_tokens": self._draw.randrange(1, 40), "temperature": 0.7, "ignore_eos": True}
        response = await client.post("/generate", json={"text": self._prompt(), "sampling_params": sampling})
        return "refused" if response.status_code == REFUSED else _whole(response)

    async def _leaves(self, client: httpx.AsyncClient) -> str:
        num_lines = self._draw.randrange(0, 20)
        body = self._body(prompt=self._prompt(), stream=True, max_tokens=500)
        async with client.stream("POST", "/v1/completions", json=body) as response:
            if response.status_code == REFUSED:
                return "refused"
            async for _ in response.aiter_lines():
                num_lines -= 1
                if num_lines <= 0:
                    break
        return "left"

    async def _bad_body(self, client: httpx.AsyncClient) -> str:
        bad: list[Any] = [
            "{",
            b"\xff\xfe",
            "[]",
            '{"prompt": 7}',
            '{"prompt": "a", "max_tokens": -1}',
            '{"n": "x"}',
        ]
        path = self._draw.choice(("/v1/completions", "/v1/chat/completions", "/generate"))
        headers = {"content-type": "application/json"}
        response = await client.post(path, content=self._draw.choice(bad), headers=headers)
        _expect(response, 400)
        return "400"

    async def _form(self, client: httpx.AsyncClient) -> str:
        sampling = {"max_new_tokens": 30, "regex": self._draw.choice(FORMS)}
        response = await client.post("/generate", json={"text": self._prompt(), "sampling_params": sampling})
        return "refused" if response.status_code == REFUSED else _whole(response)

    async def _aborted(self, client: httpx.AsyncClient) -> str:
        rid = f"soak-{self._draw.randrange(10**9)}"
        sampling = {"max_new_tokens": 3000, "ignore_eos": True}
        body = {"text": self._prompt(), "rid": rid, "sampling_params": sampling}
        asking = asyncio.create_task(client.post("/generate", json=body))
        while not asking.done():  # it may not have arrived yet
            await asyncio.sleep(0.1)
            await client.post("/abort_request", json={"rid": rid})
        response = await asking
        return "refused" if response.status_code == REFUSED else _whole(response)

    async def _burst(self, _: httpx.AsyncClient) -> str:
        # All at once, each over a new connection, and none of them is asked for a second answer.
        async with self._client() as client:
            outcomes = await asyncio.gather(*(self._generate(client) for _ in range(BURST)))
        return "some refused" if "refused" in outcomes else "whole"


class IdleConnections:
    """Connections that are kept open and ask nothing; those that the server closes are opened again."""

    def __init__(self, host: str, port: int, num_connections: int) -> None:
        self._address = host, port
        self._num_connections = num_connections
        self._opening = asyncio.Semaphore(AT_ONCE)
        self.num_open = self.num_reopened = 0

    async def hold(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for _ in range(self._num_connections):
                tasks.create_task(self._hold_one())

    async def _hold_one(self) -> None:
        while True:
            async with self._opening:
                reader, writer = await asyncio.open_connection(*self._address)
            self.num_open += 1
            try:
                writer.write(b"GET /health HTTP/1.1\r\nHost: soak\r\n\r\n")
                while await reader.read(4096):
                    pass
                self.num_reopened += 1
            finally:
                self.num_open -= 1
                writer.close()


def _without_library(kind: Callable[[], Awaitable[str]]) -> Callable[[httpx.AsyncClient], Awaitable[str]]:
    return lambda _: kind()


def _chain(error: BaseException | None) -> str:
    """The error, and what was behind it: a library's own words may be none."""
    words = []
    while error is not None:
        words.append(f"{type(error).__name__} {error}".strip())
        error = error.__cause__ or error.__context__
    return ", by ".join(words)


def _expect(response: httpx.Response, status: int) -> None:
    if response.status_code != status:
        raise Unexpected(f"status {response.status_code} where {status} was due")


def _whole(response: httpx.Response) -> str:
    _expect(response, 200)
    return str(response.json()["meta_info"]["finish_reason"]["type"])
