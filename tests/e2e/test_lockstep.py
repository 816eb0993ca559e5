"""Two ranks under real traffic say what one rank says, also when one of them stands still for a while."""

import asyncio
import json
import random
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import psutil
import pytest

from srt.configs.checkpoint import find_model
from srt.tokenizer.load import load_tokenizer, prepare_tokenizer
from tests.e2e.server_process import ServerProcess, stand_still
from tests.fakes.tiny_checkpoint import write_tiny_checkpoint

NUM_REQUESTS = 36
# A pool that the traffic fills several times over, and prompts that need several chunks.
FLAGS = ("--dtype", "float32", "--max-total-tokens", "1200", "--chunked-prefill-size", "64")
# Each process draws its own hash seed, also where the environment of the tests names one.
ENV = {"PYTHONHASHSEED": "random"}
STANDSTILL_S = 3.0


@dataclass(frozen=True)
class Twins:
    """A model whose tokens come in pairs with equal logits: id i and id i + half."""

    path: str
    half: int


@pytest.fixture(scope="module")
def twins(tmp_path_factory: pytest.TempPathFactory) -> Twins:
    tokenizer = prepare_tokenizer(find_model(None))
    vocab_size = load_tokenizer(tokenizer).vocab_size
    folder = tmp_path_factory.mktemp("twins") / "model"
    write_tiny_checkpoint(
        folder, tokenizer=tokenizer, vocab_size=vocab_size, has_twins=True, max_position_embeddings=1024
    )
    return Twins(str(folder), vocab_size // 2)


@pytest.fixture(scope="module")
def one_rank(twins: Twins) -> Iterator[ServerProcess]:
    with ServerProcess("--model-path", twins.path, *FLAGS, env=ENV) as server:
        yield server


@pytest.fixture(scope="module")
def two_ranks(twins: Twins) -> Iterator[ServerProcess]:
    with ServerProcess("--model-path", twins.path, "--tp-size", "2", *FLAGS, env=ENV) as server:
        yield server


@pytest.fixture(scope="module")
def expected(one_rank: ServerProcess) -> list[str]:
    return asyncio.run(traffic(one_rank.base_url))


def random_body(number: int) -> tuple[str, dict[str, Any]]:
    """The same body for the same number, with a seed of its own."""
    rng = random.Random(number)
    prompt = " ".join(rng.choices(["sun", "moon", "river", "stone", "bird"], k=rng.randrange(1, 120)))
    body = {
        "model": "m",
        "max_tokens": rng.choice([1, 30, 200]),
        "temperature": rng.choice([0, 0, 0.7]),
        "top_k": 4,  # of 49,152 like ones, another is drawn for the last bit of a logit
        "seed": number,
        "stream": rng.random() < 0.6,
        "ignore_eos": rng.random() < 0.8,
        "stop": rng.choice([[], [], [], ["e", "xyz"]]),
        "frequency_penalty": rng.choice([0, 0, 0.5]),
    }
    if rng.random() < 0.5:
        return "/v1/completions", {**body, "prompt": prompt}
    return "/v1/chat/completions", {**body, "messages": [{"role": "user", "content": prompt}]}


async def one_request(client: httpx.AsyncClient, number: int) -> str:
    """The whole text; or, of those who hang up on the way, nothing."""
    path, body = random_body(number)
    pieces: list[bytes] = []
    async with client.stream("POST", path, json=body) as response:
        assert response.status_code == 200, await response.aread()
        async for piece in response.aiter_bytes():
            pieces.append(piece)
            if number % 6 == 5 and body["stream"]:
                return ""
    return text_of(b"".join(pieces), is_stream=body["stream"])


def text_of(answer: bytes, *, is_stream: bool) -> str:
    if not is_stream:
        (choice,) = json.loads(answer)["choices"]
        return str(choice["text"] if "text" in choice else choice["message"]["content"])
    events = [line.removeprefix(b"data: ") for line in answer.split(b"\n") if line]
    assert events.pop() == b"[DONE]"
    choices = [choice for event in events for choice in json.loads(event)["choices"]]
    return "".join(
        choice["text"] if "text" in choice else choice["delta"].get("content") or "" for choice in choices
    )


async def traffic(base_url: str, standing_still: psutil.Process | None = None) -> list[str]:
    """All requests at once; when the first has its answer, `standing_still` does so for a while."""
    limits = httpx.Limits(max_connections=NUM_REQUESTS)
    async with httpx.AsyncClient(base_url=base_url, timeout=120, limits=limits) as client:
        answers = [asyncio.create_task(one_request(client, number)) for number in range(NUM_REQUESTS)]
        if standing_still is not None:
            await asyncio.wait(answers, return_when=asyncio.FIRST_COMPLETED)
            await asyncio.to_thread(stand_still, standing_still, seconds=STANDSTILL_S)
        return await asyncio.gather(*answers)


def test_two_ranks_say_what_one_rank_says(two_ranks: ServerProcess, expected: list[str]) -> None:
    assert asyncio.run(traffic(two_ranks.base_url)) == expected
    assert any(expected)


@pytest.mark.parametrize("rank", [0, 1])
def test_a_rank_that_stands_still_for_a_while_costs_time_and_nothing_else(
    two_ranks: ServerProcess, expected: list[str], rank: int
) -> None:
    child = two_ranks.child(f"scheduler_TP{rank}")
    assert asyncio.run(traffic(two_ranks.base_url, child)) == expected


@pytest.mark.parametrize("titles", [["scheduler_TP0"], ["scheduler_TP1"], ["scheduler_TP0", "scheduler_TP1"]])
def test_an_idle_server_outlives_a_standstill(two_ranks: ServerProcess, titles: list[str]) -> None:
    before = two_ranks.generate("The sun", max_new_tokens=8)
    stand_still(*map(two_ranks.child, titles), seconds=STANDSTILL_S)
    assert two_ranks.generate("The sun", max_new_tokens=8) == before


def test_equal_logits_give_the_lowest_id_at_any_size(
    one_rank: ServerProcess, two_ranks: ServerProcess, twins: Twins
) -> None:
    """50 prompts at once; half of them stop at some token or at its twin, whichever comes."""
    stops = range(0, twins.half, 49)  # with their twins as many as one request may name
    pairs = [token_id for stop in stops for token_id in (stop, stop + twins.half)]
    sampling = [
        {"temperature": 0, "max_new_tokens": 16, "stop_token_ids": pairs if number % 2 else []}
        for number in range(50)
    ]
    prompts = [[11 + number, 500 + number, 3 * number] for number in range(50)]
    body = {"input_ids": prompts, "sampling_params": sampling}
    one, two = (server.post("/generate", body).raise_for_status().json() for server in (one_rank, two_ranks))
    output_ids = [answer["output_ids"] for answer in one]
    assert [answer["output_ids"] for answer in two] == output_ids
    assert max(map(max, output_ids)) < twins.half
    assert {len(ids) for ids in output_ids} > {16}


@pytest.mark.slow
def test_nothing_but_http_can_be_reached_from_another_machine(two_ranks: ServerProcess) -> None:
    listening = {
        connection.laddr
        for process in two_ranks.tree()
        for connection in process.net_connections("tcp")
        if connection.status == psutil.CONN_LISTEN
    }
    others = {address for address in listening if address.port != two_ranks.port}
    assert len(listening) == len(others) + 1
    assert {address.ip for address in others} <= {"127.0.0.1"}


def test_idle_time_is_no_standstill(twins: Twins) -> None:
    """Idle for longer than any rank may wait for another."""
    flags = ("--model-path", twins.path, "--tp-size", "2", *FLAGS)
    with ServerProcess(*flags, "--dist-timeout", "10", env=ENV) as server:
        threading.Event().wait(12.0)
        assert server.generate("The sun", max_new_tokens=8)
