"""What is noted of every HTTP request: where its time went, and what the log says of it."""

import json
import logging
import time

import pytest

from srt.engine_client import GenerateRequest
from srt.entrypoints.telemetry import Endpoints
from srt.observability.front_counts import NUM_ENDPOINTS
from srt.observability.request_timing import SEGMENTS, RequestTiming, SchedulerTiming, begin_timing
from srt.server_args.server_args import ServerArgs
from tests.fakes.engine_client import LENGTH, FakeEngineClient, FakeGeneration, chunk
from tests.fakes.http_world import CHAT, ask, post, serving

pytestmark = pytest.mark.anyio

SECRET = "asked in confidence"
ASKED = {"messages": [{"role": "user", "content": SECRET}]}


class TimedEngine(FakeEngineClient):
    """Notes what a real one does, of an answer that took no time."""

    def __init__(self) -> None:
        super().__init__([[chunk("hi", finish=LENGTH)]])
        self.timings: list[RequestTiming] = []

    async def generate(self, request: GenerateRequest) -> FakeGeneration:
        timing = begin_timing(time.monotonic)
        timing.note_templated()
        timing.note_tokenized()
        timing.note_dispatched()
        timing.scheduler = SchedulerTiming(time.monotonic(), 0.0)
        timing.detokenized = time.monotonic()
        timing.note_finished()
        self.timings.append(timing)
        return await super().generate(request)


def told(caplog: pytest.LogCaptureFixture, message: str) -> list[dict[str, object]]:
    """What the lines with this message say beside it."""
    return [record.__dict__["fields"] for record in caplog.records if record.getMessage() == message]


async def test_the_segments_of_a_request_add_up_to_its_time() -> None:
    engine = TimedEngine()
    await post(engine, "/v1/chat/completions", CHAT)
    (timing,) = engine.timings
    assert timing.written is not None
    sums = {name: histogram.read() for name, histogram in engine.counts.segments.items()}
    assert [sum(read.counts) for read in sums.values()] == [1] * len(SEGMENTS)
    total_s = sum(read.sum_s for read in sums.values())
    assert total_s == pytest.approx(timing.written - timing.received, abs=2e-5)


async def test_the_clock_starts_with_the_first_byte() -> None:
    engine = TimedEngine()
    body = json.dumps(CHAT).encode()
    head = "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    head += f"Content-Length: {len(body)}"
    async with serving(engine) as world, world.connection() as slow, world.connection() as other:
        slow.writer.write(b"P")
        await slow.writer.drain()
        other.writer.write(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
        assert await other.read_status() == 200
        begun = time.monotonic()
        slow.writer.write(head[1:].encode() + b"\r\n\r\n" + body)
        assert await slow.read_status() == 200
    assert engine.timings[0].received < begun


async def test_the_second_request_of_a_connection_has_a_clock_of_its_own() -> None:
    engine = TimedEngine()
    engine.answers.append([[chunk("hi", finish=LENGTH)]])
    async with serving(engine) as world, world.connection() as connection:
        connection.post("/v1/chat/completions", CHAT)
        await connection.read_until(b'"finish_reason":"length"')
        begun = time.monotonic()
        await connection.read_until(b"}")
        connection.post("/v1/chat/completions", CHAT)
        await connection.read_until(b'"finish_reason":"length"')
    assert [timing.received > begun for timing in engine.timings] == [False, True]


async def test_what_was_refused_leaves_no_segments() -> None:
    engine = FakeEngineClient()
    await post(engine, "/v1/chat/completions", {"messages": 7})
    assert [sum(histogram.read().counts) for histogram in engine.counts.segments.values()] == [0] * len(
        SEGMENTS
    )


async def test_a_slow_request_is_logged_with_where_its_time_went(caplog: pytest.LogCaptureFixture) -> None:
    await post(TimedEngine(), "/v1/chat/completions?x=1", ASKED, args=ServerArgs(slow_request_threshold=1e-9))
    (line,) = told(caplog, "slow request")
    assert (line["method"], line["path"], line["status"]) == ("POST", "/v1/chat/completions", 200)
    assert {f"{name}_s" for name in SEGMENTS} <= set(line)
    assert SECRET not in caplog.text


async def test_a_request_that_is_not_slow_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    await post(TimedEngine(), "/v1/chat/completions", ASKED, args=ServerArgs(slow_request_threshold=3600.0))
    assert told(caplog, "slow request") == told(caplog, "access") == []


async def test_the_access_log_has_a_line_for_each_request_without_its_query(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    await ask(FakeEngineClient(), "GET", "/health?token=x", args=ServerArgs(enable_access_log=True))
    (line,) = told(caplog, "access")
    assert (line["method"], line["path"], line["status"]) == ("GET", "/health", 200)


def test_an_endpoint_has_a_number_and_what_is_none_shares_the_last() -> None:
    endpoints = Endpoints([("/a", "GET"), ("/a", "POST"), ("/m/{name:path}", "GET")])
    asked = [("/a", "POST"), ("/a", "HEAD"), ("/m/x/y", "GET"), ("/m/x", "POST"), ("/b", "GET")]
    last = NUM_ENDPOINTS - 1
    assert [endpoints.number(path, method) for path, method in asked] == [1, 0, 2, last, last]
