"""An OpenTelemetry collector on loopback: takes OTLP over HTTP, and keeps the spans it was sent, decoded."""

import queue
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

DEADLINE_S = 30.0


@dataclass(frozen=True)
class Span:
    """One span, and what its process says of itself. Ids in hexadecimal; `parent` is empty for none."""

    name: str
    trace: str
    id: str
    parent: str
    begun_ns: int
    ended_ns: int
    attributes: Mapping[str, Any]
    process: Mapping[str, Any]
    is_error: bool


class TraceCollector:
    """What has come, in the order in which it came."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.paths: set[str] = set()
        self._taking = threading.Lock()
        self._spans: queue.SimpleQueue[Span] = queue.SimpleQueue()

    def next_span(self) -> Span:
        """Waits for it."""
        return self._spans.get(timeout=DEADLINE_S)

    def next_request(self) -> tuple[Span, list[Span]]:
        """The span of the whole, and those of its parts, which the exporter sends in front of it."""
        parts: list[Span] = []
        while True:
            span = self.next_span()
            if parts and span.id == parts[0].parent:
                return span, parts
            parts.append(span)

    def take(self, path: str, body: bytes) -> None:
        """What one process sends at once stays together."""
        self.paths.add(path)
        with self._taking:
            self._take(body)

    def _take(self, body: bytes) -> None:
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            process = _read(resource.resource.attributes)
            for span in (span for scope in resource.scope_spans for span in scope.spans):
                self._spans.put(
                    Span(
                        name=span.name,
                        trace=span.trace_id.hex(),
                        id=span.span_id.hex(),
                        parent=span.parent_span_id.hex(),
                        begun_ns=span.start_time_unix_nano,
                        ended_ns=span.end_time_unix_nano,
                        attributes=_read(span.attributes),
                        process=process,
                        is_error=span.status.code == span.status.STATUS_CODE_ERROR,
                    )
                )


@contextmanager
def trace_collector() -> Iterator[TraceCollector]:
    """Takes what it is sent while the context lasts."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            collector.take(self.path, self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        collector = TraceCollector(server.server_port)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield collector
        finally:
            server.shutdown()
            thread.join()


def _read(attributes: Any) -> dict[str, Any]:
    return {pair.key: _value(pair.value) for pair in attributes if isinstance(pair, KeyValue)}


def _value(value: AnyValue) -> Any:
    kind = value.WhichOneof("value")
    assert kind is not None
    if kind == "array_value":
        return [_value(each) for each in value.array_value.values]
    return getattr(value, kind)
