"""A seeded storm with a quarter of the clients hanging up: afterwards the books balance and nothing changed."""

import asyncio
import json
import random
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.e2e.endings import end_of_stream, end_of_whole
from tests.e2e.server_process import ServerProcess

NUM_REQUESTS = 200
PROBE = "The quick brown fox"


@pytest.fixture(scope="module", params=[1, 2], ids=lambda size: f"tp{size}")
def server(request: pytest.FixtureRequest, tiny_model: str) -> Iterator[ServerProcess]:
    flags = ("--model-path", tiny_model, "--tp-size", str(request.param), "--dtype", "float32")
    # A pool that a fifth of the storm fills: eviction and retraction are part of the weather.
    with ServerProcess(*flags, "--max-total-tokens", "4000", "--chunked-prefill-size", "256") as server:
        yield server


def random_body(rng: random.Random) -> tuple[str, dict[str, Any]]:
    prompt = " ".join(rng.choices(["sun", "moon", "river", "stone", "bird"], k=rng.randrange(1, 120)))
    common: dict[str, Any] = {
        "model": "m",
        "max_tokens": rng.randrange(1, 80),
        "temperature": rng.choice([0, 0.7, 1.5]),
        "stream": rng.random() < 0.6,
        "n": rng.choice([1, 1, 1, 2]),
        "ignore_eos": rng.random() < 0.5,
    }
    if rng.random() < 0.3:
        common["stop"] = ["e", "xyz"]
    if rng.random() < 0.3:
        common["frequency_penalty"] = 0.5
    if rng.random() < 0.5:
        return "/v1/completions", {**common, "prompt": prompt}
    return "/v1/chat/completions", {**common, "messages": [{"role": "user", "content": prompt}]}


async def one_request(client: httpx.AsyncClient, rng: random.Random) -> str:
    """Sends one request; returns how it ended for the client."""
    path, body = random_body(rng)
    hangs_up_after = rng.randrange(0, 6) if rng.random() < 0.25 else None
    async with client.stream("POST", path, json=body) as response:
        assert response.status_code == 200, await response.aread()
        pieces = []
        async for piece in response.aiter_bytes():
            pieces.append(piece)
            if hangs_up_after is not None and len(pieces) > hangs_up_after:
                return "left"
    whole = b"".join(pieces).decode()
    if body["stream"]:
        assert end_of_stream(whole, body["n"]) == "finished"
        return "streamed"
    assert end_of_whole(json.loads(whole), body["n"]) == "finished"
    return "whole"


async def storm(base_url: str, seed: int) -> list[str]:
    limits = httpx.Limits(max_connections=NUM_REQUESTS)
    async with httpx.AsyncClient(base_url=base_url, timeout=300, limits=limits) as client:
        rngs = [random.Random(seed + i) for i in range(NUM_REQUESTS)]
        return await asyncio.gather(*(one_request(client, rng) for rng in rngs))


def test_after_a_storm_all_memory_is_back_and_the_probe_says_its_old_text(server: ServerProcess) -> None:
    before = server.generate(PROBE, max_new_tokens=20)
    endings = asyncio.run(storm(server.base_url, seed=1))
    assert len(endings) == NUM_REQUESTS
    assert {"left", "streamed", "whole"} <= set(endings)
    server.wait_until_idle()
    (load,) = server.get("/v1/loads")["loads"]
    assert (load["num_running_reqs"], load["num_waiting_reqs"], load["num_used_tokens"]) == (0, 0, 0)
    # A flush hands every cached slot back; the scheduler's own idle check would log a difference.
    assert server.http.post("/flush_cache").status_code == 200
    assert server.generate(PROBE, max_new_tokens=20) == before
    assert "books" not in server.log()
    assert "Traceback" not in server.log()
