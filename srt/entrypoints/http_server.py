"""The ASGI app put together, and uvicorn run on a socket that is bound already.

`build_app` needs nothing but an EngineClient and the flags, so that a test can call it without a socket.
Next on the request's path: srt/entrypoints/routes.py
"""

import contextlib
import socket
from collections.abc import Generator

import uvicorn
from starlette.routing import Router
from starlette.types import ASGIApp

from srt.engine_client import EngineClient
from srt.entrypoints.error_response import ErrorResponses
from srt.entrypoints.http_protocol import BoundedHttpProtocol
from srt.entrypoints.middleware import ApiKey, BodyLimit, RequestLabel
from srt.entrypoints.routes import build_routes
from srt.server_args.server_args import ServerArgs

# Longer than clients and gateways keep an idle connection, so that it is they who close it: a server that closes
# first races with the next request.
KEEP_ALIVE_S = 75


def build_app(client: EngineClient, args: ServerArgs) -> ASGIApp:
    """Everything a request passes through, from the outside in. CORS stays closed: no header allows it."""
    app: ASGIApp = Router(build_routes(client, args), redirect_slashes=False)
    app = BodyLimit(app, args.max_body_bytes)
    app = ApiKey(app, args.api_key)
    app = ErrorResponses(app)
    return RequestLabel(app)


class HttpServer:
    """Serves an app on a bound socket, in the running event loop, until told to stop.

    Installs no signal handlers: whoever owns the process owns its signals. Closes the socket in the end.
    """

    def __init__(self, app: ASGIApp, sock: socket.socket) -> None:
        config = uvicorn.Config(
            app,
            http=BoundedHttpProtocol,
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            log_level="warning",
            access_log=False,
            proxy_headers=False,
            server_header=False,
            timeout_keep_alive=KEEP_ALIVE_S,
        )
        self._server = _ServerWithoutSignals(config)
        self._sock = sock

    @property
    def is_started(self) -> bool:
        """Whether connections are accepted, or were."""
        return self._server.started

    async def serve(self) -> None:
        """Serve until `stop()`, then until every open request has ended."""
        await self._server.serve(sockets=[self._sock])

    def stop(self, *, force: bool = False) -> None:
        """Accept nothing new, close idle connections. `force` hangs up on open requests too, which aborts them."""
        self._server.should_exit = True
        if force:
            self._server.force_exit = True
            for connection in list(self._server.server_state.connections):
                # As if the client had left: handlers know that way out, and cancellation would log a traceback each.
                if connection.transport is not None:
                    connection.transport.abort()


class _ServerWithoutSignals(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield
