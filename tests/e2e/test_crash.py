"""Processes that die, signals, and what is left behind: nothing."""

import json
import os
import signal
import threading
from collections.abc import Iterator

import psutil
import pytest

from tests.e2e.server_process import ServerProcess

LONG = {"model": "m", "prompt": "Once", "max_tokens": 3000, "ignore_eos": True, "stream": True}


def start(tiny_model: str, *more: str) -> ServerProcess:
    flags = ("--model-path", tiny_model, "--dtype", "float32", "--max-total-tokens", "8000")
    return ServerProcess(*flags, *more)


@pytest.fixture
def server(request: pytest.FixtureRequest, tiny_model: str) -> Iterator[ServerProcess]:
    """One that the test ends, whichever way."""
    with start(tiny_model, *getattr(request, "param", ())) as server:
        yield server


@pytest.fixture(scope="module")
def living(tiny_model: str) -> Iterator[ServerProcess]:
    """One for all that a server outlives."""
    with start(tiny_model) as server:
        yield server


@pytest.mark.parametrize("server", [("--tp-size", "2")], indirect=True)
@pytest.mark.parametrize("victim", ["scheduler_TP0", "scheduler_TP1", "detokenizer"])
def test_a_killed_child_ends_streams_with_an_error_and_the_server_with_a_code(
    server: ServerProcess, victim: str
) -> None:
    tree = server.tree()
    events = []
    with server.http.stream("POST", "/v1/completions", json=LONG) as response:
        for line in filter(None, response.iter_lines()):
            events.append(line)
            if len(events) == 3:
                server.child(victim).kill()
    assert events[-1] == "data: [DONE]"
    assert "error" in json.loads(events[-2].removeprefix("data: "))
    assert server.wait(timeout_s=20) not in (0, None)
    _, alive = psutil.wait_procs(tree, timeout=10)
    assert alive == []
    assert server.leftovers() == []
    assert victim in server.log()


@pytest.mark.parametrize("server", [("--tp-size", "2", "--dist-timeout", "5")], indirect=True)
@pytest.mark.parametrize("victim", ["scheduler_TP0", "scheduler_TP1"])
def test_a_rank_that_stands_still_for_ever_ends_streams_with_an_error_and_the_server_with_a_code(
    server: ServerProcess, victim: str
) -> None:
    tree = server.tree()
    events = []
    with server.http.stream("POST", "/v1/completions", json=LONG) as response:
        for line in filter(None, response.iter_lines()):
            events.append(line)
            if len(events) == 3:
                server.child(victim).suspend()
    assert "error" in json.loads(events[-2].removeprefix("data: "))
    assert events[-1] == "data: [DONE]"
    assert server.wait(timeout_s=20) not in (0, None)
    _, alive = psutil.wait_procs(tree, timeout=10)
    assert alive == []
    assert "--dist-timeout" in server.log()


def test_sigterm_lets_a_running_request_finish_and_exits_with_0(server: ServerProcess) -> None:
    body = {**LONG, "max_tokens": 400}
    lines = []
    with server.http.stream("POST", "/v1/completions", json=body) as response:
        for line in filter(None, response.iter_lines()):
            lines.append(line)
            if len(lines) == 3:
                server.process.send_signal(signal.SIGTERM)
    assert lines[-1] == "data: [DONE]"
    assert sum('"finish_reason":"length"' in line for line in lines) == 1
    assert server.wait(timeout_s=30) == 0
    assert server.leftovers() == []


@pytest.mark.parametrize("server", [("--drain-timeout", "0.5")], indirect=True)
def test_the_drain_has_an_end(server: ServerProcess) -> None:
    body = {**LONG, "max_tokens": 6000}
    lines = []
    with server.http.stream("POST", "/v1/completions", json=body) as response:
        for line in filter(None, response.iter_lines()):
            lines.append(line)
            if len(lines) == 3:
                server.process.send_signal(signal.SIGTERM)
    assert lines[-1] == "data: [DONE]"
    assert server.wait(timeout_s=30) == 0


def test_a_second_server_on_the_same_port_says_so_and_does_not_harm_the_first(
    living: ServerProcess, tiny_model: str
) -> None:
    second = ServerProcess("--model-path", tiny_model, "--port", str(living.port))
    assert second.wait() != 0
    assert str(living.port) in second.log()
    second.stop()
    assert living.is_healthy()


def test_idle_processes_use_no_cpu(living: ServerProcess) -> None:
    """Not a timing: CPU seconds over an interval in which a spinning loop would burn all of it."""
    tree = living.tree()
    before = [sum(process.cpu_times()[:2]) for process in tree]
    threading.Event().wait(3.0)
    after = [sum(process.cpu_times()[:2]) for process in tree]
    assert max(b - a for a, b in zip(before, after, strict=True)) < 1.0


def test_a_disconnect_frees_the_slots(living: ServerProcess) -> None:
    body = {**LONG, "max_tokens": 6000}
    with living.http.stream("POST", "/v1/completions", json=body) as response:
        next(response.iter_lines())
    # An idle server would take 6,000 more steps to get here if nobody had noticed.
    response = living.http.post("/flush_cache", params={"timeout": 5})
    assert response.status_code == 200, response.text
    assert living.used_tokens() == 0
    assert os.path.exists(f"/proc/{living.process.pid}")


def test_an_idle_server_exits_with_0_and_leaves_nothing(living: ServerProcess) -> None:
    """The others' server: this comes last."""
    tree = living.tree()
    assert living.terminate() == 0
    _, alive = psutil.wait_procs(tree, timeout=5)
    assert alive == []
    assert living.leftovers() == []
