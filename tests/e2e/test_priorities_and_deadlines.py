"""Over HTTP: who takes too long hears so in a way a client can act on, and the urgent do not wait."""

import json
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.e2e.server_process import ServerProcess

LONG = {"model": "m", "prompt": "a b c", "max_tokens": 900, "ignore_eos": True, "temperature": 0}


@pytest.fixture(scope="module")
def server(tiny_model: str) -> Iterator[ServerProcess]:
    model = ("--model-path", tiny_model, "--dtype", "float32", "--max-total-tokens", "2000")
    limits = ("--max-running-requests", "1", "--request-waiting-timeout", "0.05")
    with ServerProcess(*model, *limits, "--enable-priority-scheduling") as server:
        yield server


def events(response: httpx.Response) -> Iterator[str]:
    return (line.removeprefix("data: ") for line in response.iter_lines() if line)


def stream(server: ServerProcess, body: dict[str, Any]) -> Any:
    return server.http.stream("POST", "/v1/completions", json={**body, "stream": True})


def test_an_answer_that_takes_longer_than_its_client_allows_is_a_504(server: ServerProcess) -> None:
    response = server.post("/v1/completions", {**LONG, "timeout_s": 0.02})
    assert response.status_code == 504
    error = response.json()["error"]
    assert (error["type"], "timeout_s of 0.02 s" in error["message"]) == ("server_error", True)


def test_a_stream_that_takes_longer_ends_with_one_error_event(server: ServerProcess) -> None:
    with stream(server, {**LONG, "timeout_s": 0.5}) as response:
        assert response.status_code == 200
        *before, error, done = events(response)
    assert done == "[DONE]"
    assert "timeout_s of 0.5 s" in json.loads(error)["error"]["message"]
    assert before
    assert not any("error" in json.loads(event) for event in before)


def test_who_waits_too_long_gets_a_503_and_the_stream_that_runs_goes_on(server: ServerProcess) -> None:
    with stream(server, LONG) as running:
        news = events(running)
        next(news)
        waited = server.post("/v1/completions", {**LONG, "max_tokens": 1})
        assert waited.status_code == 503
        assert waited.json()["error"]["type"] == "service_unavailable"
        assert "--request-waiting-timeout" in waited.json()["error"]["message"]
        assert "retry-after" in waited.headers
        assert list(news)[-1] == "[DONE]"


def test_an_urgent_request_is_served_at_once_and_the_other_goes_on_with_the_same_text(
    server: ServerProcess,
) -> None:
    body = {**LONG, "prompt": "d e f"}
    alone = server.post("/v1/completions", body).json()["choices"][0]["text"]
    texts: list[str] = []
    has_begun, ended = threading.Event(), []

    def read() -> None:
        with stream(server, {**body, "priority": 0}) as response:
            for event in events(response):
                if event != "[DONE]":
                    texts.append(json.loads(event)["choices"][0]["text"])
                has_begun.set()
        ended.append("lowly")

    reader = threading.Thread(target=read)
    reader.start()
    assert has_begun.wait(60)
    urgent = server.post("/v1/completions", {**LONG, "max_tokens": 2, "priority": 11})
    ended.append("urgent")
    reader.join(60)
    assert urgent.status_code == 200
    assert ended == ["urgent", "lowly"]
    assert "".join(texts) == alone
