"""Start the server: flags in, processes and an open port out. It and http_worker.py see both HTTP and the actors.

What it needs is imported inside functions, because every child process that is spawned imports this file again.
Next on the request's path: srt/entrypoints/http_server.py
"""

import asyncio
import logging
import signal
import socket
import sys
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from managers.launcher import FoundModel, RunningEngine
    from srt.entrypoints.http_server import HttpServer
    from srt.server_args.server_args import ServerArgs

logger = logging.getLogger("launch_server")

SIGNALS = (signal.SIGTERM, signal.SIGINT)
# How long connections get to take their last words: after an orderly end, and after the death of a process.
CLOSE_GRACE_S, FAILURE_GRACE_S = 5.0, 1.0


class Front(Protocol):
    """What serves HTTP: this process, or several others."""

    death: asyncio.Future[str]  # set, with a sentence, when the server cannot go on

    def serve(self, listener: socket.socket) -> None:
        """Serve what arrives at an open port, from now on."""
        ...

    async def drain(self, timeout_s: float, *, hurry: asyncio.Event) -> None:
        """Take nothing new; let what runs finish for `timeout_s`, or until `hurry` is set; then end it."""
        ...

    async def stop(self, grace_s: float) -> None:
        """Close the port and every connection; those with an answer in the making have `grace_s`."""
        ...


class OnlyFront:
    """This process serves HTTP itself."""

    def __init__(self, args: "ServerArgs", engine: "RunningEngine") -> None:
        self._args = args
        self._engine = engine
        self._server: HttpServer | None = None
        self.death = engine.death

    def serve(self, listener: socket.socket) -> None:
        """See Front."""
        from managers.front_board import Figure
        from srt.entrypoints.http_server import HttpServer, build_app

        row = self._engine.fronts.own_row
        self._server = HttpServer(
            build_app(self._engine.client, self._args),
            listener,
            read_timeout_s=self._args.http_read_timeout,
            on_connection=lambda: row.count(Figure.CONNECTIONS_OPENED),
            on_connection_end=lambda: row.count(Figure.CONNECTIONS_CLOSED),
            on_refusal=row.counts.http.refuse,
        )
        self._serving = asyncio.create_task(self._server.serve())
        self._serving.add_done_callback(self._on_end)

    async def drain(self, timeout_s: float, *, hurry: asyncio.Event) -> None:
        """See Front."""
        await self._engine.client.drain(timeout_s, hurry=hurry)

    async def stop(self, grace_s: float) -> None:
        """See Front."""
        if self._server is not None:
            await self._server.close(grace_s)
            await self._serving

    def _on_end(self, serving: asyncio.Task[None]) -> None:
        if not serving.cancelled() and serving.exception() and not self.death.done():
            self.death.set_result(f"HTTP has failed: {serving.exception()}")


def main() -> int:
    """The exit code: 0 after an orderly stop, 1 when the server cannot start or has lost a process."""
    import uvloop

    from managers.launcher import find_and_prepare_model
    from managers.preflight import claim_what_is_needed
    from srt.errors import StartupError
    from srt.observability.log_stream import hold_standard_streams
    from srt.observability.logging import configure_logging
    from srt.server_args.cli import parse_args
    from srt.util.descriptor_limit import raise_descriptor_limit

    hold_standard_streams()
    args = parse_args()
    configure_logging("main", args.log_level, args.log_format)
    raise_descriptor_limit()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with claim_what_is_needed(args) as sock:
            exit_code = uvloop.run(_run(args, find_and_prepare_model(args), sock))
        logger.info("stopped")
        return exit_code
    except StartupError as error:
        logger.critical("%s", error)
        return 1
    except (asyncio.CancelledError, KeyboardInterrupt):
        return 0  # told to stop while starting


async def _run(args: "ServerArgs", model: "FoundModel", sock: socket.socket) -> int:
    from managers.launcher import launch, launch_fronts

    starting = asyncio.current_task()
    assert starting is not None
    _on_signals(starting.cancel)
    try:
        if args.tokenizer_worker_num > 1:
            async with launch_fronts(args, model) as fronts:
                return await _serve(args, fronts, sock)
        # Takes a while, and until the model is loaded there is nothing else to do here.
        importing = asyncio.create_task(asyncio.to_thread(import_module, "srt.entrypoints.http_server"))
        async with launch(args, model) as engine:
            await importing
            return await _serve(args, OnlyFront(args, engine), sock)
    finally:
        for number in SIGNALS:  # All is done; a late signal must not change the exit code.
            asyncio.get_running_loop().remove_signal_handler(number)
            signal.signal(number, signal.SIG_IGN)


async def _serve(args: "ServerArgs", front: Front, sock: socket.socket) -> int:
    """Serve until told to stop, or until a process is lost. A second signal cuts off what still runs."""
    from srt.util.network import open_port
    from srt.util.service_manager import READY, STOPPING, tell_service_manager

    told_to_stop, told_twice = asyncio.Event(), asyncio.Event()
    _on_signals(lambda: (told_twice if told_to_stop.is_set() else told_to_stop).set())
    open_port(sock)
    front.serve(sock)
    stop = asyncio.create_task(told_to_stop.wait())
    logger.info("listening on http://%s:%d", args.host, sock.getsockname()[1])
    tell_service_manager(READY)
    ends: set[asyncio.Future[Any]] = {stop, front.death}
    await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    tell_service_manager(STOPPING)
    if stop.done():
        logger.info("told to stop: open requests have %g s to finish", args.drain_timeout)
        await front.drain(args.drain_timeout, hurry=told_twice)
    stop.cancel()
    await front.stop(FAILURE_GRACE_S if front.death.done() else CLOSE_GRACE_S)
    if not front.death.done():
        return 0
    logger.critical("the server ends: %s", front.death.result())
    return 1


def _on_signals(callback: Callable[[], object]) -> None:
    for number in SIGNALS:
        asyncio.get_running_loop().add_signal_handler(number, callback)


if __name__ == "__main__":
    sys.exit(main())
