"""`TraceExporter`: ended requests to an OpenTelemetry collector, as spans, from a thread of its own.

The only file that knows OpenTelemetry, an optional package; it is imported only when traces are asked for. A request
waits for nothing here: it is put into a bounded row, which the thread empties once a second. While the collector
cannot be reached, what the row has no room for is dropped and counted; it is said once when that begins, and once
when it is over.

Sampling, further attributes of the process and headers for the collector are set as OpenTelemetry's own variables say
(OTEL_TRACES_SAMPLER, OTEL_RESOURCE_ATTRIBUTES, OTEL_EXPORTER_OTLP_HEADERS, …).
"""

import atexit
import logging
import multiprocessing
import os
import threading
import time
from collections import deque

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.environment_variables import OTEL_SERVICE_NAME
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.trace import SpanKind, StatusCode, Tracer, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from srt import __version__
from srt.observability.request_trace import EndedRequest

logger = logging.getLogger(__name__)

MAX_WAITING = 4096
MAX_BATCH = 64  # requests, of a dozen spans each
INTERVAL_S = 1.0
# How long the end of the process may wait for the last spans to leave.
CLOSE_S = 1.0


def open_trace_exporter(url: str, service_name: str | None) -> "TraceExporter":
    """The thread runs, and sends what is left when the process ends in order."""
    # What it says, it says for each batch; who reads the log wants to know when it begins and ends.
    logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
    exporter = TraceExporter(OTLPSpanExporter(endpoint=url), url, service_name)
    exporter.start()
    atexit.register(exporter.close)
    return exporter


class TraceExporter:
    """A TraceSink. `service_name` None: as OTEL_SERVICE_NAME says, else `lockstep`."""

    def __init__(self, exporter: SpanExporter, url: str, service_name: str | None) -> None:
        self._exporter = exporter
        self._url = url
        self._waiting: deque[EndedRequest] = deque()
        self._spans = SpanMaker(service_name)
        self._is_delivered = True
        self._num_lost = 0
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="traces", daemon=True)

    def start(self) -> None:
        """From now on the row is emptied."""
        self._thread.start()

    def put(self, request: EndedRequest) -> None:
        """Never waits, and wakes nobody."""
        if len(self._waiting) < MAX_WAITING:
            self._waiting.append(request)
        else:
            self._num_lost += 1

    def close(self) -> None:
        """Send what is left, if the collector takes it at once."""
        atexit.unregister(self.close)
        self._closing.set()
        self._thread.join(CLOSE_S)
        self._exporter.shutdown()

    def _run(self) -> None:
        while not self._closing.wait(INTERVAL_S):
            self._empty()
        self._empty()

    def _empty(self) -> None:
        while self._waiting:
            batch = [self._waiting.popleft() for _ in range(min(len(self._waiting), MAX_BATCH))]
            spans = [span for request in batch for span in self._spans.of(request)]
            if not spans:
                continue  # the sampler wants none of them
            is_delivered = self._exporter.export(spans) is SpanExportResult.SUCCESS
            self._num_lost += 0 if is_delivered else len(batch)
            self._tell(is_delivered)
            if not is_delivered:
                return  # not one after the other, each with its time-out

    def _tell(self, is_delivered: bool) -> None:
        if is_delivered == self._is_delivered:
            return
        self._is_delivered = is_delivered
        if is_delivered:
            logger.info("traces reach %s again; those of %d requests are lost", self._url, self._num_lost)
            self._num_lost = 0
        else:
            logger.warning("traces do not reach %s; requests go on without", self._url)


class SpanMaker:
    """An EndedRequest as OpenTelemetry's spans: one for the whole, one for each segment of its time."""

    def __init__(self, service_name: str | None) -> None:
        about: dict[str, str | int] = {
            "service.name": service_name or os.environ.get(OTEL_SERVICE_NAME) or "lockstep",
            "service.version": __version__,
            "process.pid": os.getpid(),
            "lockstep.process": multiprocessing.current_process().name,
        }
        provider = TracerProvider(resource=Resource.create(about), shutdown_on_exit=False)
        self._ended = _Ended()
        provider.add_span_processor(self._ended)
        self._tracer: Tracer = provider.get_tracer("lockstep", __version__)
        self._propagator = TraceContextTextMapPropagator()

    def of(self, request: EndedRequest) -> list[ReadableSpan]:
        """None, if it is not to be sampled."""
        clock_ns = time.time_ns() - time.monotonic_ns()

        def moment(instant: float) -> int:
            return clock_ns + int(instant * 1e9)

        whole = self._tracer.start_span(
            request.name,
            # Not the context of this thread: there is no other than the client's.
            self._propagator.extract(request.parent, Context()),
            kind=SpanKind.SERVER,
            attributes=request.attributes,
            start_time=moment(request.received),
        )
        if whole.is_recording():
            within = set_span_in_context(whole, Context())
            begun = request.received
            for name, seconds in request.segments.items():
                span = self._tracer.start_span(name, within, start_time=moment(begun))
                begun += seconds
                span.end(moment(begun))
            if request.failure is not None:
                whole.set_status(StatusCode.ERROR, request.failure)
        whole.end(moment(request.ended))
        return self._ended.take()


class _Ended(SpanProcessor):
    """Keeps what has ended until it is taken, all in one thread."""

    def __init__(self) -> None:
        self._spans: list[ReadableSpan] = []

    def on_end(self, span: ReadableSpan) -> None:
        self._spans.append(span)

    def take(self) -> list[ReadableSpan]:
        """All since the last time."""
        taken, self._spans = self._spans, []
        return taken
