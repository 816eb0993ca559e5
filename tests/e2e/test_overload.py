"""More than fits: refusals are real 503s before any 200, and what is too long is a 400."""

import asyncio
from collections import Counter
from collections.abc import Iterator

import httpx
import pytest

from tests.e2e.server_process import ServerProcess


@pytest.fixture(scope="module")
def server(tiny_model: str) -> Iterator[ServerProcess]:
    flags = ("--model-path", tiny_model, "--dtype", "float32", "--max-total-tokens", "2000")
    limits = ("--max-running-requests", "1", "--max-queued-requests", "2", "--context-length", "1024")
    with ServerProcess(*flags, *limits) as server:
        yield server


@pytest.mark.parametrize("stream", [False, True])
def test_what_the_queue_does_not_hold_gets_a_503(server: ServerProcess, stream: bool) -> None:
    async def burst() -> list[httpx.Response]:
        body = {"model": "m", "prompt": "a b c", "max_tokens": 200, "ignore_eos": True, "stream": stream}
        async with server.async_http() as client:
            return await asyncio.gather(*(client.post("/v1/completions", json=body) for _ in range(40)))

    responses = asyncio.run(burst())
    statuses = Counter(response.status_code for response in responses)
    assert set(statuses) == {200, 503}
    assert statuses[200] >= 3  # one runs, two wait
    refused = next(response for response in responses if response.status_code == 503)
    assert refused.json()["error"]["type"] == "service_unavailable"
    assert int(refused.headers["retry-after"]) >= 1
    if stream:
        served = next(response for response in responses if response.status_code == 200)
        assert served.text.endswith("data: [DONE]\n\n")


@pytest.mark.parametrize(
    "body",
    [
        {"prompt": [5] * 1024, "max_tokens": 1},
        {"prompt": [5] * 1000, "max_tokens": 25},
        {"prompt": "word " * 100_000, "max_tokens": 1},
    ],
    ids=["prompt fills the context", "prompt and answer exceed it", "far too long"],
)
def test_what_can_never_fit_gets_a_400(server: ServerProcess, body: dict[str, object]) -> None:
    response = server.post("/v1/completions", {"model": "m", **body})
    assert response.status_code == 400
    assert response.json()["error"]["code"] == "context_length_exceeded"


def test_what_just_fits_is_served(server: ServerProcess) -> None:
    body = {"model": "m", "prompt": [5] * 1000, "max_tokens": 24, "ignore_eos": True}
    usage = server.post("/v1/completions", body).json()["usage"]
    assert (usage["prompt_tokens"], usage["completion_tokens"]) == (1000, 24)


def test_a_huge_prompt_does_not_stop_another_stream(server: ServerProcess) -> None:
    """While a 5 MB prompt is being refused, a stream that started before goes on."""

    async def both() -> tuple[list[str], int]:
        async with server.async_http() as client:
            body = {"model": "m", "prompt": "go", "max_tokens": 300, "ignore_eos": True, "stream": True}
            order: list[str] = []

            async def huge() -> int:
                messages = [{"role": "user", "content": "lorem ipsum " * 420_000}]
                response = await client.post(
                    "/v1/chat/completions", json={"model": "m", "messages": messages}
                )
                order.append("refused")
                return response.status_code

            async with client.stream("POST", "/v1/completions", json=body) as stream:
                lines = stream.aiter_lines()
                await anext(lines)
                task = asyncio.create_task(huge())
                async for line in lines:
                    order += ["event"] if line else []
            return order, await task

    order, status = asyncio.run(both())
    assert status == 400
    assert "event" in order[: order.index("refused")] if "refused" in order else order
