"""Health of real servers, with made-up answers in place of a model: who is silent is named, and the server ends."""

import threading
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest

from tests.e2e.server_process import ServerProcess, stand_still

MOCK = ("--load-format", "mock", "--mock-step-ms", "20")
WATCHED = (*MOCK, "--watchdog-timeout", "2")
LONG = {"model": "m", "prompt": "Once", "max_tokens": 3000, "stream": True}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("victim", "flags"),
    [
        *((victim, ()) for victim in ("scheduler_TP0", "detokenizer", "tokenizer_worker_1")),
        ("data_parallel_controller", ("--dp-size", "2")),
    ],
)
def test_whoever_hangs_is_named_and_the_server_ends_with_a_code(victim: str, flags: tuple[str, ...]) -> None:
    with ServerProcess(*WATCHED, "--tokenizer-worker-num", "2", *flags) as server:
        tree = server.tree()
        server.child(victim).suspend()
        assert server.wait(timeout_s=30) == 1
        _, alive = psutil.wait_procs(tree, timeout=10)
        assert alive == []
        assert server.leftovers() == []
        log = server.log()
        assert f"the server ends: no sign of life from {victim}" in log
        assert "state: stopped" in log


@pytest.mark.slow
def test_a_main_process_that_stands_still_longer_than_the_limit_gives_nobody_up_when_it_goes_on() -> None:
    with ServerProcess(*WATCHED, "--tokenizer-worker-num", "2") as server:
        body = {**LONG, "max_tokens": 300, "ignore_eos": True}
        with server.http.stream("POST", "/v1/completions", json=body, timeout=60) as response:
            lines = response.iter_lines()
            next(lines)
            stand_still(server.tree()[0], seconds=4.0)
            rest = [line for line in lines if line]
        assert '"length"' in rest[-2]
        assert server.get("/health") == {"status": "ok"}
        assert server.generate("a", max_new_tokens=2)


def test_a_hung_scheduler_is_seen_by_health_and_ends_streams_with_an_error() -> None:
    with ServerProcess(*WATCHED) as server:
        with server.http.stream("POST", "/v1/completions", json=LONG, timeout=60) as response:
            lines = response.iter_lines()
            next(lines)
            server.child("scheduler").suspend()
            rest = [line for line in lines if line]
        assert "no sign of life from scheduler_TP0" in rest[-2]
        assert rest[-1] == "data: [DONE]"
        assert server.wait(timeout_s=30) == 1


def test_checks_while_the_engine_stands_still_do_not_pile_up_and_a_full_server_answers_them() -> None:
    flags = ("--max-running-requests", "2", "--max-queued-requests", "1", "--chunked-prefill-size", "16")
    with ServerProcess(*MOCK, *flags) as server, ThreadPoolExecutor(8) as threads:
        scheduler = server.child("scheduler")
        scheduler.suspend()
        checks = [threads.submit(server.get, "/health_generate") for _ in range(5)]
        assert server.get("/live") == server.get("/health") == {"status": "ok"}
        scheduler.resume()
        assert all(check.result(30)["status"] == "ok" for check in checks)
        assert server.get("/v1/loads")["loads"][0]["num_running_reqs"] == 0

        leave = threading.Event()
        streams = [threads.submit(_stream_until, server, leave) for _ in range(3)]
        while server.get("/v1/loads")["loads"][0]["num_waiting_reqs"] < 1:
            leave.wait(0.02)
        refused = server.post("/v1/completions", {**LONG, "stream": False})
        assert refused.status_code == 503
        assert server.get("/health_generate") == {"status": "ok"}
        leave.set()
        for stream in streams:
            stream.result(30)
        server.wait_until_idle()
        assert server.get("/server_info")["internal_states"][0]["num_ledger_repairs"] == 0


def _stream_until(server: ServerProcess, leave: threading.Event) -> None:
    with server.http.stream("POST", "/v1/completions", json=LONG, timeout=60) as response:
        for _ in response.iter_lines():
            if leave.is_set():
                return
