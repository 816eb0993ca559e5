"""What a trace says of a request."""

from collections.abc import Sequence
from typing import Any

import httpx
import pytest

from srt.engine_client import FinishReason
from srt.entrypoints.http_server import build_app
from srt.errors import RequestFailed
from srt.observability.request_timing import SEGMENTS
from srt.observability.request_trace import EndedRequest
from srt.server_args.server_args import ServerArgs
from tests.fakes.engine_client import LENGTH, STOP, FakeEngineClient, chunk
from tests.fakes.http_world import CHAT
from tests.srt.entrypoints.test_telemetry import TimedEngine

pytestmark = pytest.mark.anyio

SECRET = "asked in confidence"
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


async def traced(
    engine: FakeEngineClient, method: str, path: str, args: ServerArgs | None = None, **request: Any
) -> Sequence[EndedRequest]:
    ended: list[EndedRequest] = []

    class Sink:
        def put(self, request: EndedRequest) -> None:
            ended.append(request)

    transport = httpx.ASGITransport(build_app(engine, args or ServerArgs(), Sink()))
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as http:
        await http.request(method, path, **request)
    return ended


async def test_a_chat_is_told_of_in_figures_and_settings_never_in_its_words() -> None:
    body = {"messages": [{"role": "user", "content": SECRET}], "stop": [SECRET], "temperature": 0.5}
    body |= {"max_tokens": 7, "seed": 3}
    headers = {"traceparent": PARENT, "tracestate": "a=b", "x-request-id": "mine"}
    path = "/v1/chat/completions"
    (told,) = await traced(TimedEngine(), "POST", f"{path}?q={SECRET}", json=body, headers=headers)
    assert told.name == "chat tiny"
    assert told.parent == {"traceparent": PARENT, "tracestate": "a=b"}
    assert list(told.segments) == list(SEGMENTS)
    assert sum(told.segments.values()) == pytest.approx(told.ended - told.received, abs=0.05)
    expected = {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "tiny",
        "gen_ai.request.temperature": 0.5,
        "gen_ai.request.max_tokens": 7,
        "gen_ai.request.seed": 3,
        "gen_ai.request.stream": False,
        "gen_ai.response.finish_reasons": ["length"],
        "gen_ai.usage.input_tokens": len(SECRET),
        "gen_ai.usage.output_tokens": 1,
        "gen_ai.usage.cache_read.input_tokens": 2,
        "http.request.header.x-request-id": ["mine"],
        "http.response.status_code": 200,
        "url.path": path,
    }
    assert expected.items() <= told.attributes.items()
    assert SECRET not in repr(told)
    assert told.failure is None


async def test_what_ends_with_an_error_of_ours_has_failed_and_what_the_client_did_wrong_has_not() -> None:
    engine = FakeEngineClient([[chunk("hi")], RequestFailed("the replica is lost", status=503)])
    (lost,) = await traced(engine, "POST", "/v1/completions", json={"prompt": "hi", "stream": True})
    assert (lost.name, lost.attributes["http.response.status_code"]) == ("text_completion tiny", 200)
    assert lost.failure == lost.attributes["error.type"]
    assert lost.attributes["gen_ai.response.finish_reasons"] == ["abort"]
    engine = FakeEngineClient()
    (wrong,) = await traced(engine, "POST", "/v1/chat/completions", json=CHAT | {"stop_token_ids": [10**6]})
    assert (wrong.failure, wrong.attributes["http.response.status_code"]) == (None, 400)


async def test_answers_of_several_prompts_are_added_up() -> None:
    rows = [chunk("a", index=i, finish=STOP, completion_tokens=i + 1) for i in range(4)]
    rows[3] = chunk("a", index=3, finish=FinishReason(type="abort"), completion_tokens=0)
    engine = FakeEngineClient([rows])
    (told,) = await traced(engine, "POST", "/v1/completions", json={"prompt": ["one", "two"], "n": 2})
    assert told.attributes["gen_ai.request.choice.count"] == 2
    assert told.attributes["gen_ai.usage.input_tokens"] == 8  # each has a BOS in front
    assert told.attributes["gen_ai.usage.output_tokens"] == 6
    assert told.attributes["gen_ai.usage.cache_read.input_tokens"] == 4
    assert told.attributes["gen_ai.response.finish_reasons"] == ["stop", "stop", "stop", "abort"]


async def test_a_probe_is_told_of_only_if_its_client_has_a_trace() -> None:
    assert await traced(FakeEngineClient(), "GET", "/health") == []
    deep = FakeEngineClient([[chunk("a", finish=LENGTH)]])
    assert await traced(deep, "GET", "/health_generate") == []
    (told,) = await traced(FakeEngineClient(), "GET", "/health", headers={"traceparent": PARENT})
    assert (told.name, told.segments) == ("GET", {})


async def test_a_parent_longer_than_any_is_left_out() -> None:
    headers = {"traceparent": PARENT, "tracestate": "a=" + "b" * 2000}
    (told,) = await traced(FakeEngineClient(), "GET", "/health", headers=headers)
    assert told.parent == {"traceparent": PARENT}
