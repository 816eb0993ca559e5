"""The benchmark against a small server whose counts are known; no test here looks at a clock."""

import asyncio
import json
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn

import bench_serving

PROMPT_TOKENS = 7


class ScriptedServer:
    """An OpenAI-compatible ASGI app: two tokens an event, and a failure when the model's name asks for one."""

    def __init__(self) -> None:
        self.bodies: list[dict[str, Any]] = []
        self.api_keys: set[bytes] = set()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        assert scope["type"] == "http"
        if scope["path"] == "/v1/models":
            await respond(send, 200, {"data": [{"id": "first"}, {"id": "second"}]})
            return
        content = b""
        more = True
        while more:
            message = await receive()
            content += message["body"]
            more = message.get("more_body", False)
        body = json.loads(content)
        self.bodies.append(body)
        self.api_keys.add(dict(scope["headers"]).get(b"authorization", b""))
        if body["model"] == "refuses":
            await respond(send, 503, {"error": {"message": "queue full"}})
            return
        await stream(send, body, is_chat=scope["path"].endswith("/chat/completions"))


async def respond(send: Any, status: int, content: Any) -> None:
    body = json.dumps(content).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def stream(send: Any, body: dict[str, Any], *, is_chat: bool) -> None:
    num_tokens = body["max_tokens"]
    choices: list[dict[str, Any]] = [{"text": 'two "text": tokens '}] * (num_tokens // 2)
    choices.append({"text": "", "finish_reason": "length"})
    if is_chat:
        choices = [{"delta": {"content": choice["text"]}} for choice in choices]
        choices.insert(0, {"delta": {"role": "assistant", "content": ""}})
    events = [json.dumps({"choices": [choice], "usage": None}) for choice in choices]
    if body["model"] == "gives-up":
        events = [*events[:3], json.dumps({"error": {"message": "a process died"}})]
    if body["model"] != "silent":
        usage = {"prompt_tokens": PROMPT_TOKENS, "completion_tokens": num_tokens}
        events.append(json.dumps({"choices": [], "usage": usage}))
    if body["model"] != "stops-short":
        events.append("[DONE]")
    headers = [(b"content-type", b"text/event-stream")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    text = "".join(f"data: {event}\n\n" for event in events).encode()
    for start in range(0, len(text), 50):  # events and network pieces have no borders in common
        await send({"type": "http.response.body", "body": text[start : start + 50], "more_body": True})
    await send({"type": "http.response.body", "body": b""})


@pytest.fixture
def app() -> ScriptedServer:
    return ScriptedServer()


@pytest.fixture
def url(app: ScriptedServer) -> Iterator[str]:
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen()  # so a client may connect before the server's loop runs
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="off"))
    thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[listener])))
    thread.start()
    yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    server.should_exit = True
    thread.join()


def run_bench(url: str, folder: Path, *flags: str) -> tuple[int, dict[str, Any]]:
    report = folder / "report.json"
    exit_code = bench_serving.main(["--base-url", url, "--json", str(report), *flags])
    return exit_code, json.loads(report.read_text())


SIX_REQUESTS = ("--num-requests", "6", "--concurrency", "3", "--output-len", "10", "--input-len", "5")


@pytest.mark.parametrize("api", ["chat", "completions"])
def test_tokens_and_events_are_counted_exactly(url: str, tmp_path: Path, api: str) -> None:
    exit_code, report = run_bench(url, tmp_path, *SIX_REQUESTS, "--api", api)
    (run,) = report["runs"]
    assert exit_code == 0
    assert report["model"] == "first"
    assert (run["num_requests"], run["num_errors"]) == (6, 0)
    assert (run["output_tokens"], run["prompt_tokens"]) == (60, 6 * PROMPT_TOKENS)
    assert (run["num_events"], run["tokens_per_event"]) == (30, 2.0)
    assert set(run["ttft_ms"]) == set(run["e2e_ms"]) == {"p50", "p90", "p99"}


def test_without_a_usage_block_events_stand_for_tokens(url: str, tmp_path: Path) -> None:
    _, report = run_bench(url, tmp_path, *SIX_REQUESTS, "--model", "silent")
    assert report["median"]["output_tokens"] == 30


@pytest.mark.parametrize(
    ("model", "error"),
    [
        ("refuses", "HTTP 503"),
        ("gives-up", "a process died"),
        ("stops-short", "before [DONE]"),
    ],
)
def test_a_request_that_fails_is_an_error_and_not_a_figure(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], model: str, error: str
) -> None:
    exit_code, report = run_bench(url, tmp_path, *SIX_REQUESTS, "--model", model)
    assert exit_code == 1
    assert report["median"]["num_errors"] == 6
    assert report["median"]["output_tokens"] == 0
    assert error in report["median"]["first_error"]
    assert error in capsys.readouterr().out


def test_a_server_that_is_not_there_is_an_error_too(tmp_path: Path) -> None:
    exit_code, report = run_bench("http://127.0.0.1:1", tmp_path, *SIX_REQUESTS, "--model", "m")
    assert exit_code == 1
    assert "cannot connect" in report["median"]["first_error"]


def test_without_a_server_to_ask_for_its_model_there_is_one_sentence(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert bench_serving.main(["--base-url", "http://127.0.0.1:1"]) == 1
    assert "http://127.0.0.1:1/v1/models does not answer" in capsys.readouterr().err


def test_groups_share_a_prefix_and_nothing_else(url: str, app: ScriptedServer, tmp_path: Path) -> None:
    run_bench(url, tmp_path, *SIX_REQUESTS, "--prefix-len", "20", "--num-groups", "2", "--api", "completions")
    prompts = [body["prompt"] for body in app.bodies]
    assert {len(prompt) for prompt in prompts} == {25}
    assert len({tuple(prompt[:20]) for prompt in prompts}) == 2
    assert len({tuple(prompt) for prompt in prompts}) == 6


def test_the_seed_decides_the_prompts_and_every_repeat_has_its_own(
    url: str, app: ScriptedServer, tmp_path: Path
) -> None:
    flags = ("--num-requests", "1", "--api", "completions", "--seed")
    _, report = run_bench(url, tmp_path, *flags, "4", "--repeat", "2")
    run_bench(url, tmp_path, *flags, "5")
    first, second, again = (body["prompt"] for body in app.bodies)
    assert [run["seed"] for run in report["runs"]] == [4, 5]
    assert first != second
    assert second == again


def test_the_request_carries_key_limits_and_extra_fields(
    url: str, app: ScriptedServer, tmp_path: Path
) -> None:
    extra = ("--extra-body", '{"top_k": 3}', "--no-ignore-eos", "--api-key", "secret")
    run_bench(url, tmp_path, *SIX_REQUESTS, *extra)
    body = app.bodies[0]
    assert app.api_keys == {b"Bearer secret"}
    assert (body["max_tokens"], body["top_k"], body["temperature"]) == (10, 3, 0)
    assert "ignore_eos" not in body


def test_the_cpu_time_of_a_process_is_told_for_each_token(url: str, tmp_path: Path) -> None:
    _, report = run_bench(url, tmp_path, *SIX_REQUESTS, "--server-pid", str(os.getpid()))
    names = set(report["median"]["cpu_us_per_output_token"])
    assert "this client" in names
    assert any(name.endswith(f"[{os.getpid()}]") for name in names)


def test_the_table_shows_what_a_human_asks_first(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_bench(url, tmp_path, *SIX_REQUESTS)
    captured = capsys.readouterr()
    for word in ("tokens/s", "ttft", "itl", "tpot", "e2e", "p50", "p90", "p99", "0 errors"):
        assert word in captured.out
    assert "6/6" in captured.err
