"""Start the server: flags in, processes and an open port out. The one file that sees both HTTP and the actors.

What it needs is imported inside functions, because every child process that is spawned imports this file again.
Next on the request's path: srt/entrypoints/http_server.py
"""

import asyncio
import logging
import signal
import socket
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from managers.launcher import FoundModel, RunningEngine
    from srt.server_args.server_args import ServerArgs

logger = logging.getLogger("launch_server")

SIGNALS = (signal.SIGTERM, signal.SIGINT)
# How long connections get to take their last words: after an orderly end, and after the death of a process.
CLOSE_GRACE_S, FAILURE_GRACE_S = 5.0, 1.0


def main() -> int:
    """The exit code: 0 after an orderly stop, 1 when the server cannot start or has lost a process."""
    import uvloop

    from managers.launcher import find_and_prepare_model
    from srt.errors import StartupError
    from srt.observability.logging import configure_logging
    from srt.server_args.checks import check_args
    from srt.server_args.cli import parse_args
    from srt.util.network import claim_port

    args = parse_args()
    configure_logging("main", args.log_level)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        check_args(args)
        # First, so that a port in use is said before anything that takes time.
        with claim_port(args.host, args.port) as sock:
            exit_code = uvloop.run(_run(args, find_and_prepare_model(args), sock))
        logger.info("stopped")
        return exit_code
    except StartupError as error:
        logger.critical("%s", error)
        return 1
    except (asyncio.CancelledError, KeyboardInterrupt):
        return 0  # told to stop while starting


async def _run(args: "ServerArgs", model: "FoundModel", sock: socket.socket) -> int:
    from managers.launcher import launch

    starting = asyncio.current_task()
    assert starting is not None
    _on_signals(starting.cancel)
    try:
        async with launch(args, model) as engine:
            return await _serve(args, engine, sock)
    finally:
        for number in SIGNALS:  # All is done; a late signal must not change the exit code.
            asyncio.get_running_loop().remove_signal_handler(number)
            signal.signal(number, signal.SIG_IGN)


async def _serve(args: "ServerArgs", engine: "RunningEngine", sock: socket.socket) -> int:
    """Serve until told to stop, or until a process is lost. A second signal cuts off what still runs."""
    from srt.entrypoints.http_server import HttpServer, build_app
    from srt.util.network import open_port

    told_to_stop, told_twice = asyncio.Event(), asyncio.Event()
    _on_signals(lambda: (told_twice if told_to_stop.is_set() else told_to_stop).set())
    open_port(sock)
    server = HttpServer(build_app(engine.client, args), sock)
    serving = asyncio.create_task(server.serve())
    stop = asyncio.create_task(told_to_stop.wait())
    logger.info("listening on http://%s:%d", args.host, sock.getsockname()[1])
    ends: set[asyncio.Future[Any]] = {serving, stop, engine.death}
    await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    if stop.done():
        logger.info("told to stop: open requests have %g s to finish", args.drain_timeout)
        await engine.client.drain(args.drain_timeout, hurry=told_twice)
    stop.cancel()
    server.stop()
    await asyncio.wait({serving}, timeout=FAILURE_GRACE_S if engine.death.done() else CLOSE_GRACE_S)
    server.stop(force=True)
    await serving
    if not engine.death.done():
        return 0
    logger.critical("the server ends: %s", engine.death.result())
    return 1


def _on_signals(callback: Callable[[], object]) -> None:
    for number in SIGNALS:
        asyncio.get_running_loop().add_signal_handler(number, callback)


if __name__ == "__main__":
    sys.exit(main())
