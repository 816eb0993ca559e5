"""GET /metrics."""

import pytest
from prometheus_client.parser import text_string_to_metric_families

from srt.server_args.server_args import ServerArgs
from tests.fakes.engine_client import LENGTH, FakeEngineClient, chunk
from tests.fakes.http_world import CHAT, ask, error_of, post, serving

pytestmark = pytest.mark.anyio

ARGS = ServerArgs(enable_metrics=True)


async def series(client: FakeEngineClient, args: ServerArgs = ARGS) -> dict[tuple[str, ...], float]:
    """Every value of the HTTP layer's own metrics, by name, endpoint and status."""
    page = (await ask(client, "GET", "/metrics", args=args)).text
    return {
        (
            sample.name.partition(":")[2],
            *(sample.labels[key] for key in ("endpoint", "status_code") if key in sample.labels),
        ): (sample.value)
        for family in text_string_to_metric_families(page)
        for sample in family.samples
        if "endpoint" in sample.labels
    }


async def test_it_is_prometheus_text_and_tells_what_the_engine_tells() -> None:
    response = await ask(FakeEngineClient(), "GET", "/metrics", args=ARGS)
    assert response.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert "\nsglang:num_running_reqs{" in response.text


async def test_names_begin_as_asked_for() -> None:
    args = ServerArgs(enable_metrics=True, metrics_prefix="lockstep_")
    assert "sglang" not in (await ask(FakeEngineClient(), "GET", "/metrics", args=args)).text


async def test_without_the_flag_it_is_a_404_that_names_the_flag() -> None:
    response = await ask(FakeEngineClient(), "GET", "/metrics")
    assert response.status_code == 404
    assert "--enable-metrics" in error_of(response)["message"]


async def test_it_needs_no_key() -> None:
    args = ServerArgs(enable_metrics=True, api_key="secret")
    assert (await ask(FakeEngineClient(), "GET", "/metrics", args=args)).status_code == 200
    assert (await ask(FakeEngineClient(), "GET", "/metrics/more", args=args)).status_code == 401


async def test_http_requests_are_counted_by_endpoint_and_answers_by_status() -> None:
    client = FakeEngineClient([[chunk("hi", finish=LENGTH)]])
    await post(client, "/v1/chat/completions", CHAT)
    await post(client, "/v1/chat/completions", {"messages": 7})
    await ask(client, "GET", "/v1/models/tiny")
    await ask(client, "GET", "/made/up/one")
    await ask(client, "GET", "/made/up/two")
    assert await series(client) == {
        ("http_requests_total", "/v1/chat/completions"): 2,
        ("http_requests_total", "/v1/models/{model:path}"): 1,
        ("http_requests_total", "/metrics"): 1,
        ("http_requests_total", "other"): 2,
        ("http_responses_total", "/v1/chat/completions", "200"): 1,
        ("http_responses_total", "/v1/chat/completions", "400"): 1,
        ("http_responses_total", "/v1/models/{model:path}", "200"): 1,
        ("http_responses_total", "other", "404"): 2,
        ("http_requests_active", "/v1/chat/completions"): 0,
        ("http_requests_active", "/v1/models/{model:path}"): 0,
        ("http_requests_active", "/metrics"): 1,
        ("http_requests_active", "other"): 0,
    }


async def test_what_was_refused_below_every_endpoint_is_counted_once() -> None:
    client, args = FakeEngineClient(), ServerArgs(enable_metrics=True, http_read_timeout=0.05)
    heads = {
        b"GET /health HTTP/1.1\r\n": 408,
        b"POST /tokenize HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{": 408,
        b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 300 + b"\r\n": 431,
        b"nonsense\r\n\r\n": 400,
    }
    for head, status in heads.items():
        async with serving(client, args) as world, world.connection() as connection:
            connection.writer.write(head)
            assert await connection.read_status() == status
    told = await series(client, args)
    assert {key[1:]: value for key, value in told.items() if key[0] == "http_responses_total"} == {
        ("/tokenize", "408"): 1,
        ("other", "408"): 1,
        ("other", "431"): 1,
        ("other", "400"): 1,
    }
