"""Clients that leave at any moment, ask for too much, stop each other, or never finish a sentence.

One server whose memory holds two or three of their requests. Whatever they did, afterwards nothing is held, the
cache can be flushed, the same question has the same answer, and the log shows no traceback.
"""

import asyncio
import json
import random
import socket
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.e2e.server_process import ServerProcess

PROBE = "The quick brown fox"
ROUTES = ("/v1/completions", "/v1/chat/completions", "/generate")


@pytest.fixture(scope="module")
def calm_server(tiny_model: str) -> Iterator[tuple[ServerProcess, str]]:
    flags = ("--model-path", tiny_model, "--dtype", "float32")
    small = ("--max-total-tokens", "700", "--page-size", "4", "--chunked-prefill-size", "64")
    with ServerProcess(*flags, *small) as server:
        yield server, server.generate(PROBE, max_new_tokens=20)


@pytest.fixture
def server(calm_server: tuple[ServerProcess, str]) -> Iterator[ServerProcess]:
    server, answer = calm_server
    yield server
    server.wait_until_idle()
    assert server.used_tokens() == 0
    assert server.generate(PROBE, max_new_tokens=20) == answer
    assert "Traceback" not in server.log()


def body_of(path: str, *, stream: bool, n: int, is_list: bool, prompt_len: int, max_tokens: int) -> Any:
    text = "word " * prompt_len
    common = {"n": n, "ignore_eos": True}
    match path:
        case "/v1/chat/completions":
            messages = [{"role": "user", "content": text}]
            return {"messages": messages, "stream": stream, "max_tokens": max_tokens, **common}
        case "/v1/completions":
            prompt = [text, f"two {text}"] if is_list else text
            return {"prompt": prompt, "stream": stream, "max_tokens": max_tokens, **common}
        case _:
            prompt = [text, f"two {text}"] if is_list else text
            sampling = {"max_new_tokens": max_tokens, **common}
            return {"text": prompt, "stream": stream, "sampling_params": sampling}


async def leave(port: int, path: str, body: Any, rng: random.Random) -> None:
    """Send a request, or only its first part, and hang up: before an answer, amid it, or behind it."""
    data = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
    whole = head.encode() + data
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(whole[: int(len(whole) * rng.choice([0.5, 0.9, 1, 1, 1, 1]))])
    try:
        async with asyncio.timeout(rng.choice([0, 0.002, 0.01, 0.05, 0.2])):
            await reader.read()
    except TimeoutError:
        pass
    if rng.random() < 0.5:
        writer.transport.abort()  # a reset
    else:
        writer.close()


def test_clients_leave_every_route_at_any_moment(server: ServerProcess) -> None:
    rng = random.Random(3)
    bodies = [
        (
            path,
            body_of(
                path,
                stream=stream,
                n=n,
                is_list=is_list,
                prompt_len=rng.choice([1, 50, 300]),
                max_tokens=rng.choice([1, 2, 100]),
            ),
        )
        for path in ROUTES
        for stream in (False, True)
        for n in (1, 3)
        for is_list in (False, True)
        for _ in range(3)
    ]
    rng.shuffle(bodies)

    async def storm() -> None:
        await asyncio.gather(*(leave(server.port, path, body, rng) for path, body in bodies))

    asyncio.run(storm())


def pressing_body(seed: int) -> dict[str, Any]:
    """Short at first and long in the end, so that more of them begin than can end beside each other."""
    rng = random.Random(seed)
    return {
        "prompt": [rng.randrange(300, 400) for _ in range(rng.randrange(10, 30))],
        "max_tokens": rng.randrange(250, 300),
        "ignore_eos": True,
        "temperature": rng.choice([0, 0, 0.7]),
        # Among few tokens: among 49,152 that are about as likely, the last bits of a logit may decide.
        "top_k": 5,
        "seed": seed,
        "frequency_penalty": rng.choice([0, 0.4]),
        "stop": rng.choice([None, ["no such text"]]),
    }


def test_who_had_to_give_way_says_what_it_says_alone(server: ServerProcess) -> None:
    bodies = [pressing_body(seed) for seed in range(8)]

    async def ask(client: httpx.AsyncClient, body: Any) -> str:
        response = await client.post("/v1/completions", json=body)
        assert response.status_code == 200, response.text
        return str(response.json()["choices"][0]["text"])

    async def both_ways() -> tuple[list[str], list[str]]:
        async with server.async_http() as client:
            alone = [await ask(client, body) for body in bodies]
            return alone, await asyncio.gather(*(ask(client, body) for body in bodies))

    alone, together = asyncio.run(both_ways())
    assert together == alone
    assert server.get("/server_info")["internal_states"][0]["num_retractions"] > 0


def test_requests_of_one_name_are_aborted_and_flushed_around_and_each_gets_its_end(
    server: ServerProcess,
) -> None:
    rng = random.Random(5)

    async def one(client: httpx.AsyncClient, number: int) -> None:
        rid, stream = f"name{number % 5}", rng.random() < 0.5
        sampling = {"max_new_tokens": rng.choice([1, 1, 2, 40]), "n": rng.choice([1, 2])}
        body = {"text": "x " * rng.choice([1, 200]), "rid": rid, "stream": stream}
        answer = asyncio.create_task(client.post("/generate", json={**body, "sampling_params": sampling}))
        await asyncio.sleep(rng.random() * 0.05)
        what = {"abort_all": True} if rng.random() < 0.05 else {"rid": rid}
        assert (await client.post("/abort_request", json=what)).status_code == 200
        assert (await client.post("/flush_cache")).status_code in (200, 400)
        response = await answer
        assert response.status_code == 200, response.text
        if stream:
            assert response.text.endswith("data: [DONE]\n\n")
        else:
            answers = response.json() if isinstance(response.json(), list) else [response.json()]
            ends = {answer["meta_info"]["finish_reason"]["type"] for answer in answers}
            assert ends <= {"abort", "length", "stop"}

    async def storm() -> None:
        limits = httpx.Limits(max_connections=300)
        async with server.async_http(limits=limits) as client:
            await asyncio.gather(*(one(client, number) for number in range(60)))

    asyncio.run(storm())


def streamed(text: str, n: int) -> list[tuple[str, str, Any]]:
    """Text, finish reason and matched stop of each choice of a completion's stream."""
    texts, ends = [""] * n, [("", None)] * n
    *events, done = text.removesuffix("\n\n").split("\n\n")
    assert done == "data: [DONE]"
    for event in events:
        (choice,) = json.loads(event.removeprefix("data: "))["choices"]
        texts[choice["index"]] += choice["text"]
        if choice["finish_reason"]:
            ends[choice["index"]] = (choice["finish_reason"], choice["matched_stop"])
    return [(text, *end) for text, end in zip(texts, ends, strict=True)]


def stops_in(text: str, rng: random.Random) -> list[str]:
    """Pieces of the text, cut anywhere in its tokens and characters; some go on as it does not."""
    starts = [rng.randrange(len(text) - 1) for _ in range(3)]
    pieces = [text[start : start + rng.choice([1, 2, 5, 300])] for start in starts]
    return [piece + rng.choice(["", "Z", "ZZZZ"]) for piece in pieces]


def test_a_stream_says_what_the_whole_answer_says_whatever_stops_it(server: ServerProcess) -> None:
    async def one(client: httpx.AsyncClient, seed: int) -> None:
        rng = random.Random(seed)
        n = rng.choice([1, 1, 3])
        body = {
            "prompt": " ".join(rng.choices(["sun", "日本語", "😀", "def"], k=rng.randrange(1, 30))),
            "max_tokens": rng.randrange(10, 50),
            "temperature": rng.choice([0, 0.8, 2]),
            "top_k": 20,
            "seed": seed,
            "n": n,
            "no_stop_trim": rng.random() < 0.3,
            "skip_special_tokens": rng.random() < 0.5,
        }
        first = (await client.post("/v1/completions", json=body)).json()["choices"][0]["text"]
        if len(first) > 2:
            body["stop"] = stops_in(first, rng)
        stream, whole = await asyncio.gather(
            client.post("/v1/completions", json={**body, "stream": True}),
            client.post("/v1/completions", json=body),
        )
        choices = whole.json()["choices"]
        assert streamed(stream.text, n) == [
            (choice["text"], choice["finish_reason"], choice["matched_stop"]) for choice in choices
        ]
        for choice in choices if not body["no_stop_trim"] else []:
            assert not any(stop in choice["text"] for stop in body.get("stop", []))

    async def storm() -> None:
        async with server.async_http() as client:
            await asyncio.gather(*(one(client, seed) for seed in range(40)))

    asyncio.run(storm())


def test_bytes_that_are_no_characters_arrive_as_valid_text(server: ServerProcess) -> None:
    """Token 130 is a lone byte of a longer character."""
    body = {"prompt": "a", "max_tokens": 60, "ignore_eos": True, "logit_bias": {"130": 100}}
    whole = server.post("/v1/completions", body).json()["choices"][0]["text"]
    stream = server.post("/v1/completions", {**body, "stream": True}).text
    assert whole == "\ufffd" * 60
    assert streamed(stream, 1) == [(whole, "length", None)]


@pytest.mark.parametrize(
    ("prompt_len", "max_tokens", "status"), [(690, 10, 200), (690, 11, 400), (700, 0, 400)]
)
def test_the_longest_request_fills_the_memory_and_no_longer_one_is_taken(
    server: ServerProcess, prompt_len: int, max_tokens: int, status: int
) -> None:
    body = {"prompt": [5] * prompt_len, "max_tokens": max_tokens, "ignore_eos": True}
    assert server.post("/v1/completions", body).status_code == status


def test_a_prompt_list_beyond_all_bounds_is_refused(server: ServerProcess) -> None:
    response = server.post("/v1/completions", {"prompt": ["a"] * 200_000, "n": 4})
    assert response.status_code == 400
    assert response.json()["error"]["param"] == "prompt"


def test_hundreds_of_silent_and_half_sent_connections_disturb_nobody(server: ServerProcess) -> None:
    num_open = server.tree()[0].num_fds()
    silent = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(300)]
    for connection in silent[:150]:
        connection.sendall(b"POST /v1/completions HTTP/1.1\r\nContent-Length: 500\r\n\r\n{")
    assert server.is_healthy()
    assert server.generate("a", max_new_tokens=2)
    for connection in silent:
        connection.close()
    assert server.is_healthy()
    assert server.tree()[0].num_fds() < num_open + 100
