"""A model served twice: the same answers, and the death of one replica is the business of its requests only."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import httpx
import psutil
import pytest

from tests.e2e.server_process import ServerProcess

PROMPTS = [f"Once upon a time there were {number} foxes" for number in range(8)]
LONG = {"model": "m", "prompt": "Once", "max_tokens": 300, "ignore_eos": True, "stream": True}


def flags(tiny_model: str, *more: str) -> tuple[str, ...]:
    return ("--model-path", tiny_model, "--dtype", "float32", "--max-total-tokens", "8000", *more)


@pytest.fixture(scope="module")
def alone(tiny_model: str) -> list[str]:
    """What one replica says."""
    with ServerProcess(*flags(tiny_model)) as server:
        assert not [process for process in server.tree() if "controller" in " ".join(process.cmdline())]
        return answers(server)


@pytest.fixture(params=[("1", "prefix_aware"), ("2", "round_robin")], ids=["tp1", "tp2"])
def server(request: pytest.FixtureRequest, tiny_model: str) -> Iterator[ServerProcess]:
    tp_size, method = request.param
    with ServerProcess(
        *flags(tiny_model, "--dp-size", "2", "--tp-size", tp_size, "--load-balance-method", method)
    ) as server:
        yield server


def answers(server: ServerProcess) -> list[str]:
    body = {"text": PROMPTS, "sampling_params": {"temperature": 0, "max_new_tokens": 12}}
    return [answer["text"] for answer in server.post("/generate", body).raise_for_status().json()]


def test_two_replicas_answer_as_one_and_one_of_them_may_die(server: ServerProcess, alone: list[str]) -> None:
    assert answers(server) == alone
    states = server.get("/server_info")["internal_states"]
    assert [state["dp_rank"] for state in states] == [0, 1]
    assert [state["num_finished"] for state in states] == [4, 4]
    check_routing(server)
    last_rank = max(title for title in titles(server) if "scheduler_DP1" in title)
    endings = asyncio.run(streams_while_one_dies(server, last_rank))
    assert endings == {0: "whole", 1: f"{last_rank.removeprefix('lockstep::')} has died (killed by SIGKILL)"}
    check_what_is_left(server, alone)
    tree = server.tree()
    if last_rank.endswith("TP0"):
        assert server.terminate() == 0
        assert "Traceback" not in server.log()
    else:
        server.child("scheduler_DP0_TP0").kill()
        assert server.wait() == 1
    _, alive = psutil.wait_procs(tree, timeout=10)
    assert alive == []
    assert server.leftovers() == []


def check_routing(server: ServerProcess) -> None:
    """A prefix is found again where it was put, and not in the other replica."""
    body = {"text": " ".join(str(number) for number in range(60)), "sampling_params": {"max_new_tokens": 1}}
    cached = []
    for asked in ({"routed_dp_rank": 0}, {"data_parallel_rank": 0}, {"routed_dp_rank": 1}):
        answer = server.post("/generate", {**body, **asked}).raise_for_status().json()
        cached.append(answer["meta_info"]["cached_tokens"])
    assert (cached[0], cached[2]) == (0, 0)
    assert cached[1] > 60
    refusal = server.post("/generate", {**body, "routed_dp_rank": 2})
    assert (refusal.status_code, refusal.json()["error"]["param"]) == (400, "routed_dp_rank")
    assert server.post("/flush_cache", {}).status_code == 200
    answer = server.post("/generate", {**body, "routed_dp_rank": 0}).raise_for_status().json()
    assert answer["meta_info"]["cached_tokens"] == 0


async def streams_while_one_dies(server: ServerProcess, victim: str) -> dict[int, str]:
    """A stream on each replica; once both have begun, a rank of the second is killed. How each ended."""
    begun = asyncio.Barrier(3)

    async def stream(client: httpx.AsyncClient, dp_rank: int) -> str:
        body = {**LONG, "routed_dp_rank": dp_rank}
        lines: list[str] = []
        async with client.stream("POST", "/v1/completions", json=body) as response:
            assert response.status_code == 200
            async for line in response.aiter_lines():
                if line:
                    lines.append(line.removeprefix("data: "))
                    if len(lines) == 3:
                        await begun.wait()
        assert lines[-1] == "[DONE]"
        events = [json.loads(line) for line in lines[:-1]]
        errors = [event["error"]["message"] for event in events if "error" in event]
        assert len(errors) <= 1
        if errors:
            assert "error" in events[-1]
            return str(errors[0])
        assert events[-1]["choices"][0]["finish_reason"] == "length"
        return "whole"

    async def kill() -> None:
        await begun.wait()
        server.child(victim).kill()

    async with server.async_http() as client:
        first, second, _ = await asyncio.gather(stream(client, 0), stream(client, 1), kill())
    return {0: first, 1: second}


def check_what_is_left(server: ServerProcess, alone: list[str]) -> None:
    """Later requests are served by who lives, and whoever asks is told who does not."""
    assert answers(server) == alone
    health: dict[str, Any] = server.get("/health")
    assert health["status"] == "degraded"
    assert "DP1" in health["detail"]
    loads = server.get("/v1/loads")["loads"]
    assert [(load["dp_rank"], load["is_alive"]) for load in loads] == [(0, True), (1, False)]
    assert [load["dp_rank"] for load in server.get("/get_load")] == [0]
    assert [state["dp_rank"] for state in server.get("/server_info")["internal_states"]] == [0]
    refusal = server.post("/generate", {"text": "a", "routed_dp_rank": 1})
    assert (refusal.status_code, refusal.json()["error"]["param"]) == (503, "routed_dp_rank")
    assert not [title for title in titles(server) if "scheduler_DP1" in title]


def titles(server: ServerProcess) -> list[str]:
    return [" ".join(process.cmdline()).strip() for process in server.tree()]
