"""Several processes that serve HTTP on one port: who gets which connection; a client cannot tell them apart."""

import json
import re
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import httpx
import psutil
import pytest
from prometheus_client.parser import text_string_to_metric_families

from srt.observability.request_timing import SEGMENTS
from tests.e2e.server_process import WITHOUT_TLS, ServerProcess
from tests.fakes.trace_collector import TraceCollector, trace_collector

KEY = {"Authorization": "Bearer key"}
LONG = {"text": "Once", "sampling_params": {"max_new_tokens": 3000, "ignore_eos": True}, "stream": True}
FLAGS = ("--dtype", "float32", "--max-total-tokens", "8000", "--tokenizer-worker-num", "2")


@pytest.fixture(scope="module")
def collector() -> Iterator[TraceCollector]:
    with trace_collector() as collector:
        yield collector


@pytest.fixture(scope="module")
def shared(tiny_model: str, collector: TraceCollector) -> Iterator[ServerProcess]:
    """Two of them in front of two replicas of the model."""
    more = ("--dp-size", "2", "--api-key", "key", "--enable-metrics", "--otlp-traces-endpoint", collector.url)
    with ServerProcess("--model-path", tiny_model, *FLAGS, *more) as server:
        yield server


@pytest.fixture
def own(request: pytest.FixtureRequest, tiny_model: str) -> Iterator[ServerProcess]:
    """For what a server does not survive."""
    with ServerProcess("--model-path", tiny_model, *FLAGS) as server:
        yield server


@contextmanager
def connected(server: ServerProcess, num_clients: int) -> Iterator[list[httpx.Client]]:
    """Clients that keep their connections, each of which has been used."""
    with ExitStack() as stack:
        clients = [
            stack.enter_context(
                httpx.Client(base_url=server.base_url, headers=KEY, timeout=60, verify=WITHOUT_TLS)
            )
            for _ in range(num_clients)
        ]
        for client in clients:
            client.get("/health").raise_for_status()
        yield clients


def workers(client: httpx.Client) -> list[dict[str, Any]]:
    answer: list[dict[str, Any]] = client.get("/server_info").json()["tokenizer_workers"]
    return answer


@contextmanager
def streams(clients: list[httpx.Client], **fields: Any) -> Iterator[list[Iterator[str]]]:
    """One stream a client, each of which has said something."""
    with ExitStack() as stack:
        all_lines = []
        for client in clients:
            response = stack.enter_context(client.stream("POST", "/generate", json={**LONG, **fields}))
            assert response.status_code == 200
            lines = filter(None, response.iter_lines())
            next(lines)
            all_lines.append(lines)
        yield all_lines


def last_event(lines: Iterator[str]) -> dict[str, Any]:
    *_, last, done = lines
    assert done == "data: [DONE]"
    event: dict[str, Any] = json.loads(last.removeprefix("data: "))
    return event


def test_eight_connections_are_four_each_and_where_some_were_closed_others_go(shared: ServerProcess) -> None:
    with connected(shared, 8) as clients:
        assert [worker["num_connections"] for worker in workers(clients[0])] == [4, 4]
        # Whose is whose: by the figures, one request at a time.
        with streams(clients[:1]):
            assert sorted(worker["num_open_answers"] for worker in workers(clients[1])) == [0, 1]
    with connected(shared, 4) as clients:
        assert [worker["num_connections"] for worker in workers(clients[0])] == [2, 2]


def test_whoever_answers_the_answer_is_the_same(shared: ServerProcess) -> None:
    body = {"text": "Once upon", "sampling_params": {"max_new_tokens": 8, "temperature": 0, "n": 2}}
    with connected(shared, 2) as clients:
        answers = [[a["text"] for a in client.post("/generate", json=body).json()] for client in clients]
        assert answers[0] == answers[1]
        for client in clients:
            assert client.get("/ready").status_code == 200
            assert len(client.get("/server_info").json()["internal_states"]) == 2
            assert len(client.get("/v1/loads").json()["loads"]) == 2
            assert client.post("/flush_cache", params={"timeout": 30}).json()["success"]
            assert client.get("/v1/models", headers={"Authorization": "Bearer wrong"}).status_code == 401


def test_an_abort_by_rid_reaches_requests_of_every_worker(shared: ServerProcess) -> None:
    with connected(shared, 3) as clients, streams(clients[:2], rid="same") as (first, second):
        assert [worker["num_open_answers"] for worker in workers(clients[2])] == [1, 1]
        clients[2].post("/abort_request", json={"rid": "same"}).raise_for_status()
        for lines in (first, second):
            assert last_event(lines)["meta_info"]["finish_reason"]["type"] == "abort"


def test_an_abort_of_all_is_one_of_all(shared: ServerProcess) -> None:
    with connected(shared, 3) as clients, streams(clients[:2]) as (first, second):
        clients[2].post("/abort_request", json={"abort_all": True}).raise_for_status()
        for lines in (first, second):
            assert last_event(lines)["meta_info"]["finish_reason"]["type"] == "abort"
        assert clients[2].post("/flush_cache", params={"timeout": 30}).status_code == 200


def series(client: httpx.Client) -> dict[tuple[str, ...], float]:
    """Every value of /metrics, by name and labels."""
    return {
        (sample.name, *(sample.labels[label] for label in sorted(sample.labels))): sample.value
        for family in text_string_to_metric_families(client.get("/metrics").text)
        for sample in family.samples
    }


def test_any_worker_tells_the_metrics_of_all(shared: ServerProcess) -> None:
    with connected(shared, 2) as clients:
        before = series(clients[0])
        for client in clients:
            client.post(
                "/generate",
                json={"text": "Once", "sampling_params": {"max_new_tokens": 5, "ignore_eos": True}},
            ).raise_for_status()
        for client in clients:
            now = series(client)
            grown = {
                key[0]: value - before[key]
                for key, value in now.items()
                if key in before and "false" in key and key[0].endswith(("_total", "_count"))
            }
            assert grown["sglang:num_requests_total"] == 2
            assert grown["sglang:generation_tokens_total"] == 10
            assert grown["sglang:time_to_first_token_seconds_count"] == 2
            up = {key: value for key, value in now.items() if key[0] == "lockstep_replica_up"}
            assert list(up.values()) == [1.0, 1.0]


def test_forms_are_kept_whoever_answers_and_an_abort_and_a_flush_reach_all(shared: ServerProcess) -> None:
    with connected(shared, 3) as clients:
        before = series(clients[0])
        short = {"max_new_tokens": 20, "temperature": 1, "regex": "[a-f]{5}"}
        for client in clients[:2]:
            for dp_rank in (0, 1):
                body = {"text": "Once", "sampling_params": short, "routed_dp_rank": dp_rank}
                answer = client.post("/generate", json=body).raise_for_status().json()
                assert re.fullmatch("[a-f]{5}", answer["text"])
                assert answer["meta_info"]["dp_rank"] == dp_rank
        long = {"max_new_tokens": 3000, "regex": "[a-f]{3000}"}
        with streams(clients[:2], rid="formed", sampling_params=long) as both:
            clients[2].post("/abort_request", json={"rid": "formed"}).raise_for_status()
            for lines in both:
                last = last_event(lines)
                assert last["meta_info"]["finish_reason"]["type"] == "abort"
                assert re.fullmatch("[a-f]+", last["text"])
        assert clients[2].post("/flush_cache", params={"timeout": 30}).status_code == 200
        for dp_rank in (0, 1):
            body = {"text": "Once", "sampling_params": short, "routed_dp_rank": dp_rank}
            answer = clients[2].post("/generate", json=body).raise_for_status().json()
            assert answer["meta_info"]["cached_tokens"] == 0
        for client in clients:
            now = series(client)
            grown = {
                key[0]: value - before[key]
                for key, value in now.items()
                if "grammar" in key[0] and key in before
            }
            assert grown["sglang:num_grammar_total"] == 8
            # Each of two workers compiled each of two forms once.
            assert grown["sglang:num_grammar_cache_hit_total"] == 4
            assert grown["sglang:num_grammar_queue_reqs"] == 0


def test_what_runs_may_finish_on_every_worker_and_then_all_end(own: ServerProcess) -> None:
    tree = own.tree()
    enough = {"max_new_tokens": 400, "ignore_eos": True}
    with connected(own, 3) as clients, streams(clients[:2], sampling_params=enough) as both:
        own.process.send_signal(signal.SIGTERM)
        refused = threading.Event()
        while not refused.wait(0.01):
            response = clients[2].get("/health")
            if response.status_code == 503:
                refused.set()
        assert clients[2].post("/generate", json=LONG).status_code == 503
        assert [last_event(lines)["meta_info"]["completion_tokens"] for lines in both] == [400, 400]
    assert own.wait(timeout_s=30) == 0
    _, alive = psutil.wait_procs(tree, timeout=10)
    assert alive == []
    assert own.leftovers() == []


def test_a_killed_worker_ends_the_others_streams_with_an_error_and_the_server_with_a_code(
    own: ServerProcess,
) -> None:
    tree = own.tree()
    with connected(own, 2) as clients:
        victim = own.child("tokenizer_worker_0")
        with streams(clients) as both:
            victim.kill()
            endings = []
            for lines in both:
                try:
                    endings.append("error" if "error" in last_event(lines) else "whole")
                except httpx.RemoteProtocolError:
                    endings.append("cut")
            assert sorted(endings) == ["cut", "error"]
    assert own.wait(timeout_s=20) not in (0, None)
    _, alive = psutil.wait_procs(tree, timeout=10)
    assert alive == []
    assert own.leftovers() == []
    assert "tokenizer_worker_0 has died (killed by SIGKILL)" in own.log()


def test_a_second_signal_cuts_off_what_runs_everywhere(own: ServerProcess) -> None:
    with connected(own, 2) as clients, streams(clients) as both:
        own.process.send_signal(signal.SIGTERM)
        while clients[1].get("/health").status_code == 200:
            pass
        own.process.send_signal(signal.SIGTERM)
        assert [last_event(lines)["meta_info"]["finish_reason"]["type"] for lines in both] == ["abort"] * 2
    assert own.wait(timeout_s=20) == 0


def test_each_traces_what_it_has_answered_in_the_clients_own_trace(
    shared: ServerProcess, collector: TraceCollector
) -> None:
    traces = [f"{number:032x}" for number in (1, 2)]
    body = {"text": "Once", "sampling_params": {"max_new_tokens": 3, "ignore_eos": True}}
    with connected(shared, 2) as clients:
        begun_ns = time.time_ns()
        for client, trace in zip(clients, traces, strict=True):
            headers = {"traceparent": f"00-{trace}-{'7' * 16}-01"}
            client.post("/generate", json=body, headers=headers).raise_for_status()
        ended_ns = time.time_ns()
    found = {}
    while set(traces) - set(found):
        whole, parts = collector.next_request()
        if whole.trace in traces:
            found[whole.trace] = whole
            assert [part.name for part in parts] == list(SEGMENTS)
            assert {part.trace for part in parts} == {whole.trace}
    for whole in found.values():
        assert whole.name.startswith("text_completion ")
        assert whole.parent == "7" * 16
        assert begun_ns <= whole.begun_ns < whole.ended_ns <= ended_ns
        assert whole.attributes["gen_ai.usage.output_tokens"] == 3
        assert whole.attributes["gen_ai.response.finish_reasons"] == ["length"]
    processes = {whole.process["lockstep.process"] for whole in found.values()}
    assert processes == {"tokenizer_worker_0", "tokenizer_worker_1"}
