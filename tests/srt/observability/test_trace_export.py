"""Ended requests as spans, at a collector that takes them and at one that is not there."""

import logging
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

from srt.observability.request_trace import EndedRequest
from srt.observability.trace_export import MAX_WAITING, TraceExporter
from tests.fakes.trace_collector import trace_collector

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
NOW = time.monotonic()


def ended(*, parent: str = "", failure: str | None = None) -> EndedRequest:
    return EndedRequest(
        name="chat tiny",
        received=NOW - 1.0,
        ended=NOW,
        segments={"receive": 0.25, "queue": 0.5, "decode": 0.125},
        attributes={"gen_ai.usage.input_tokens": 5, "gen_ai.response.finish_reasons": ["stop"]},
        parent={"traceparent": parent} if parent else {},
        failure=failure,
    )


@contextmanager
def exporting(url: str, service_name: str | None = None) -> Iterator[TraceExporter]:
    exporter = TraceExporter(OTLPSpanExporter(endpoint=f"{url}/v1/traces", timeout=0.2), url, service_name)
    try:
        yield exporter
    finally:
        if exporter._thread.ident is None:
            exporter.start()
        exporter.close()
        exporter._thread.join()


def test_a_request_is_a_span_with_one_for_each_part_of_its_time_one_behind_the_other() -> None:
    with trace_collector() as collector:
        with exporting(collector.url) as exporter:
            exporter.put(ended())
        whole, parts = collector.next_request()
    assert whole.name == "chat tiny"
    assert not whole.parent
    assert [part.name for part in parts] == ["receive", "queue", "decode"]
    assert parts[0].begun_ns == whole.begun_ns
    assert [part.ended_ns - part.begun_ns for part in parts] == pytest.approx([25e7, 5e8, 125e6], abs=10)
    assert [part.begun_ns for part in parts[1:]] == [part.ended_ns for part in parts[:-1]]
    assert whole.ended_ns - whole.begun_ns == pytest.approx(1e9, abs=10)
    assert {part.parent for part in parts} == {whole.id}
    assert whole.attributes["gen_ai.usage.input_tokens"] == 5
    assert whole.attributes["gen_ai.response.finish_reasons"] == ["stop"]
    assert whole.process["service.name"] == "lockstep"
    assert not whole.is_error


def test_a_clients_trace_goes_on_and_what_it_does_not_sample_is_not_sent() -> None:
    with trace_collector() as collector:
        with exporting(collector.url, "mine") as exporter:
            exporter.put(ended(parent=f"00-{TRACE}-{SPAN}-00"))
            exporter.put(ended(parent=f"00-{TRACE}-{SPAN}-01"))
            exporter.put(ended(parent="no such thing", failure="server_error"))
        (followed, parts), (own, _) = collector.next_request(), collector.next_request()
    assert (followed.trace, followed.parent) == (TRACE, SPAN)
    assert {part.trace for part in parts} == {TRACE}
    assert followed.process["service.name"] == "mine"
    assert (own.parent, own.is_error) == ("", True)


def test_a_collector_that_is_not_there_costs_nothing_but_the_traces(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "srt")
    with socket.socket() as nobody:  # bound, so that nobody else gets it; it refuses
        nobody.bind(("127.0.0.1", 0))
        with exporting(f"http://127.0.0.1:{nobody.getsockname()[1]}") as exporter:
            for _ in range(MAX_WAITING + 3):
                exporter.put(ended())
            assert exporter._num_lost == 3
    assert [record.levelname for record in caplog.records if "do not reach" in record.message] == ["WARNING"]
