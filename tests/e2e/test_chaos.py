"""Everything at once, on real processes: afterwards everybody has had one ending, and the server is as it was before.

Two ranks, a memory that holds a few of the requests, a short queue, priorities and time limits; clients of every kind,
and in the middle each process stands still for a second.
"""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.e2e.endings import Ending, ask
from tests.e2e.server_process import POLL_S, ServerProcess, stand_still

NUM_REQUESTS = 300
ARRIVALS_S = 10.0
STANDSTILL_S = 1.0
PROBE = "The quick brown fox"
PROCESSES = ("scheduler_TP1", "detokenizer", "scheduler_TP0", "launch_server")
# Five or six of the requests fill this pool; who comes when 24 wait, or waits for 2 s, is refused.
FLAGS = (
    *("--tp-size", "2", "--dtype", "float32", "--max-total-tokens", "600", "--page-size", "4"),
    *("--chunked-prefill-size", "64", "--max-running-requests", "12", "--max-queued-requests", "24"),
    *("--enable-priority-scheduling", "--request-waiting-timeout", "2"),
)


@pytest.fixture(params=["--disable-overlap-schedule", "--enable-overlap-schedule"])
def server(request: pytest.FixtureRequest, tiny_model: str) -> Iterator[ServerProcess]:
    with ServerProcess("--model-path", tiny_model, *FLAGS, request.param) as server:
        yield server


class Visitor:
    """One client: what it asks for and what it does besides, all from its seed."""

    def __init__(self, client: httpx.AsyncClient, number: int) -> None:
        rng = self._rng = random.Random(number)
        self._client = client
        self._arrives_at_s = rng.random() * ARRIVALS_S
        self._rid = f"visitor{number}"
        self._num_choices = rng.choice([1, 1, 1, 3])
        self._behaviour = rng.choice(["waits", "waits", "waits", "leaves", "aborts", "flushes", "hurries"])

    async def visit(self) -> Ending:
        await asyncio.sleep(self._arrives_at_s)
        path, body = self._request()
        patience_s = self._rng.random() * 0.5 if self._behaviour == "leaves" else None
        try:
            async with asyncio.timeout(patience_s):
                ending, _ = await asyncio.gather(
                    ask(self._client, path, body, self._num_choices), self._do_something_else()
                )
        except TimeoutError:
            return "left"
        return ending

    async def _do_something_else(self) -> None:
        if self._behaviour == "aborts":
            await asyncio.sleep(self._rng.random() * 0.2)
            response = await self._client.post("/abort_request", json={"rid": self._rid})
            assert response.status_code == 200
        elif self._behaviour == "flushes":
            response = await self._client.post("/flush_cache")
            assert response.status_code in (200, 400), response.text

    def _request(self) -> tuple[str, dict[str, Any]]:
        rng = self._rng
        # Some begin alike, so that prefixes are shared, split and evicted.
        beginning = rng.choice(["", "once upon a time " * 10, "once upon a hill " * 12])
        words = beginning + " ".join(rng.choices(["sun", "moon", "river", "stone"], k=rng.randrange(1, 120)))
        body: dict[str, Any] = {
            "rid": self._rid,
            "stream": rng.random() < 0.6,
            "priority": rng.choice([0, 0, 5, 50]),
        }
        if self._behaviour == "hurries":
            body["timeout_s"] = rng.choice([0.02, 0.2])
        sampling = {
            "n": self._num_choices,
            "temperature": rng.choice([0, 0.7, 1.5]),
            "ignore_eos": rng.random() < 0.3,
            "stop": rng.choice([[], [], ["e", "xyz"]]),
            "frequency_penalty": rng.choice([0, 0.5]),
        }
        max_tokens = rng.choice([1, 10, 80, 160])
        match rng.choice(["generate", "completion", "chat"]):
            case "generate":
                return "/generate", body | {
                    "text": words,
                    "sampling_params": sampling | {"max_new_tokens": max_tokens},
                }
            case "completion":
                return "/v1/completions", body | sampling | {"prompt": words, "max_tokens": max_tokens}
            case _:
                messages = [{"role": "user", "content": words}]
                return "/v1/chat/completions", body | sampling | {
                    "messages": messages,
                    "max_tokens": max_tokens,
                }


async def chaos(server: ServerProcess, num_requests: int) -> Counter[Ending]:
    """Nobody may wait for ever: then this raises TimeoutError."""
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
    async with (
        asyncio.timeout(120),
        server.async_http(limits=limits) as client,
    ):
        visits = [asyncio.create_task(Visitor(client, number).visit()) for number in range(num_requests)]
        await asyncio.sleep(ARRIVALS_S / 8)
        for name in PROCESSES:
            await asyncio.to_thread(stand_still, server.named(name), seconds=STANDSTILL_S)
        return Counter(await asyncio.gather(*visits))


async def start_all_threads(server: ServerProcess) -> None:
    """Those of the tokenizer come with the first work that finds none free."""
    async with server.async_http() as client:
        body = {"prompt": "word " * 20_000}
        tokenize = (client.post("/tokenize", json=body) for _ in range(8))
        # These are refused for their length, but first they are tokenised.
        generate = (client.post("/generate", json={"text": body["prompt"]}) for _ in range(8))
        await asyncio.gather(*tokenize, *generate)


def threads_and_files(server: ServerProcess) -> dict[str, tuple[int, int]]:
    return {name: (server.named(name).num_threads(), server.named(name).num_fds()) for name in PROCESSES}


def test_after_chaos_everybody_had_one_ending_and_the_server_is_as_before(server: ServerProcess) -> None:
    server.wait_until_idle()
    text = server.generate(PROBE, max_new_tokens=20)
    asyncio.run(start_all_threads(server))
    before = threads_and_files(server)

    endings = asyncio.run(chaos(server, NUM_REQUESTS))

    assert endings.total() == NUM_REQUESTS
    assert set(endings) == {"finished", "aborted", "refused", "late", "left"}, endings
    server.wait_until_idle()
    assert server.used_tokens() == 0
    (state,) = server.get("/server_info")["internal_states"]
    assert state["num_ledger_repairs"] == 0
    assert state["num_retractions"] > 0
    assert server.generate(PROBE, max_new_tokens=20) == text
    assert "Traceback" not in server.log()
    deadline = time.monotonic() + 10  # the last connections are being closed
    while threads_and_files(server) != before and time.monotonic() < deadline:
        time.sleep(POLL_S)
    assert threads_and_files(server) == before
