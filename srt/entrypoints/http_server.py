"""The ASGI app put together, and uvicorn run on a socket that is bound already.

`build_app` needs nothing but an EngineClient and the flags, so that a test can call it without a socket.
Next on the request's path: srt/entrypoints/routes.py
"""

import asyncio
import contextlib
import socket
import sys
from collections.abc import Callable, Generator

import uvicorn
from starlette.routing import Router
from starlette.types import ASGIApp

from srt.engine_client import EngineClient
from srt.entrypoints.chunked_body import Outbox
from srt.entrypoints.cors import Cors
from srt.entrypoints.error_response import ErrorResponses
from srt.entrypoints.http_protocol import BoundedHttpProtocol
from srt.entrypoints.middleware import ApiKey, BodyLimit, RequestLabel
from srt.entrypoints.only_model import OnlyModel
from srt.entrypoints.request_logging import LoggedEngine
from srt.entrypoints.request_tracing import RequestTracer, TracedEngine
from srt.entrypoints.routes import build_routes
from srt.entrypoints.telemetry import Endpoints, Telemetry
from srt.observability.request_log import open_request_log
from srt.observability.request_trace import TraceSink
from srt.server_args.cors_origins import parse_origins
from srt.server_args.server_args import ServerArgs
from srt.server_args.trace_endpoint import traces_url
from srt.util.patience import patience

# Longer than clients and gateways keep an idle connection, so that it is they who close it: a server that closes
# first races with the next request.
KEEP_ALIVE_S = 75
# How long a thread that renders a long chat may keep the interpreter from the event loop, and so from every stream.
# Python's own 5 ms is for threads of equal rank.
SWITCH_INTERVAL_S = 0.001


def build_app(client: EngineClient, args: ServerArgs, trace_sink: TraceSink | None = None) -> ASGIApp:
    """Everything a request passes through, from the outside in. Traces go where the flags say, unless given a sink."""
    if args.log_requests:
        request_log = open_request_log(args.log_requests_target, args.log_format)
        client = LoggedEngine(client, request_log, args.log_requests_level)
    tracer: RequestTracer | None = None
    trace_sink = trace_sink or _open_trace_sink(args)
    if trace_sink is not None:
        client = TracedEngine(client)
        tracer = RequestTracer(trace_sink, client.model_info.served_model_name)
    routes = build_routes(client, args)
    app: ASGIApp = Router(routes, redirect_slashes=False)
    if args.strict_model_name:
        app = OnlyModel(app, client.model_info.served_model_name)
    app = BodyLimit(app, args.max_body_bytes)
    app = ApiKey(app, args.api_key)
    app = ErrorResponses(app)
    if args.cors_allow_origins is not None:
        app = Cors(app, parse_origins(args.cors_allow_origins))
    return Telemetry(
        RequestLabel(app),
        client.counts,
        Endpoints.of(routes),
        slow_s=args.slow_request_threshold,
        logs_access=args.enable_access_log,
        tracer=tracer,
    )


def _open_trace_sink(args: ServerArgs) -> TraceSink | None:
    url = traces_url(args)
    if url is None:
        return None
    # Here, because what it imports is optional; managers/preflight.py has seen that it is there.
    from srt.observability.trace_export import open_trace_exporter

    return open_trace_exporter(url, args.otlp_service_name)


class HttpServer:
    """Serves an app on a bound socket, in the running event loop, until told to stop.

    Without a socket it serves the connections that it is given (`take`). The callbacks are called for each connection,
    and with the status of what was refused before it was a request.
    Installs no signal handlers: whoever owns the process owns its signals. Closes its socket at the end.
    """

    def __init__(
        self,
        app: ASGIApp,
        sock: socket.socket | None = None,
        *,
        read_timeout_s: float = BoundedHttpProtocol.read_timeout_s,
        keep_alive_s: float = KEEP_ALIVE_S,
        on_connection: Callable[[], None] = lambda: None,
        on_connection_end: Callable[[], None] = lambda: None,
        on_refusal: Callable[[int], None] = lambda status: None,
    ) -> None:
        class CountedProtocol(BoundedHttpProtocol):
            def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
                on_connection()
                super().connection_made(transport)

            def connection_lost(self, exc: Exception | None) -> None:
                on_connection_end()
                super().connection_lost(exc)

        CountedProtocol.read_timeout_s = read_timeout_s
        CountedProtocol.outbox = Outbox()
        CountedProtocol.on_refusal = staticmethod(on_refusal)
        self._protocol = CountedProtocol
        self._config = config = uvicorn.Config(
            app,
            http=CountedProtocol,
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            log_level="error",  # what it warns of is what any client can send, as often as it likes
            access_log=False,
            proxy_headers=False,
            server_header=False,
            timeout_keep_alive=keep_alive_s,  # type: ignore[arg-type]  # given to a timer only
        )
        self._server = _ServerWithoutSignals(config)
        self._sockets = [] if sock is None else [sock]
        self._taking: set[asyncio.Task[None]] = set()
        self._has_ended = asyncio.Event()

    @property
    def is_started(self) -> bool:
        """Whether connections are accepted, or were."""
        return self._server.started

    async def serve(self) -> None:
        """Serve until `stop()`, then until every open request has ended."""
        sys.setswitchinterval(SWITCH_INTERVAL_S)
        try:
            await self._server.serve(sockets=self._sockets)
        finally:
            self._has_ended.set()

    def take(self, connection: socket.socket) -> None:
        """Serve a connection that somebody else has accepted."""
        task = asyncio.create_task(self._connect(connection))
        self._taking.add(task)  # the loop itself holds tasks only weakly
        task.add_done_callback(self._taking.discard)

    async def close(self, grace_s: float) -> None:
        """Stop; after `grace_s` by force. Returns when `serve` has."""
        self.stop()
        try:
            async with patience(grace_s):
                await self._has_ended.wait()
        except TimeoutError:
            self.stop(force=True)
            await self._has_ended.wait()

    def stop(self, *, force: bool = False) -> None:
        """Accept nothing new, close idle connections. `force` hangs up on open requests too, which aborts them."""
        self._server.should_exit = True
        if force:
            self._server.force_exit = True
            for connection in list(self._server.server_state.connections):
                # As if the client had left: handlers know that way out, and cancellation would log a traceback each.
                if connection.transport is not None:
                    connection.transport.abort()

    async def _connect(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.connect_accepted_socket(
            lambda: self._protocol(self._config, self._server.server_state, {}, loop), connection
        )


class _ServerWithoutSignals(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield
