"""Start the server: flags in, processes and an open port out. `python -m launch_server --help` lists the flags.

The one file that sees both HTTP and the actors. What it needs is imported inside `main`, because every child
process that is spawned imports this file again.
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

SIGNALS = (signal.SIGTERM, signal.SIGINT)

logger = logging.getLogger("launch_server")

# How long connections get to take their last words: after an orderly end, and after a process of ours has died.
CLOSE_GRACE_S = 5.0
FAILURE_GRACE_S = 1.0


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
            return uvloop.run(_run(args, find_and_prepare_model(args), sock))
    except StartupError as error:
        logger.critical("%s", error)
        return 1
    except (asyncio.CancelledError, KeyboardInterrupt):
        logger.info("told to stop while starting")
        return 0


async def _run(args: "ServerArgs", model: "FoundModel", sock: socket.socket) -> int:
    from managers.launcher import launch

    task = asyncio.current_task()
    assert task is not None
    _on_signals(task.cancel)
    try:
        async with launch(args, model) as engine:
            return await _serve(args, engine, sock)
    finally:
        # All is done; a late signal must not change the exit code.
        for number in SIGNALS:
            asyncio.get_running_loop().remove_signal_handler(number)
            signal.signal(number, signal.SIG_IGN)


async def _serve(args: "ServerArgs", engine: "RunningEngine", sock: socket.socket) -> int:
    """Serve until told to stop, or until a process is lost. A second signal cuts off what still runs."""
    from srt.entrypoints.http_server import HttpServer, build_app
    from srt.util.network import open_port

    told_to_stop, told_twice = asyncio.Event(), asyncio.Event()

    def on_signal() -> None:
        (told_twice if told_to_stop.is_set() else told_to_stop).set()

    _on_signals(on_signal)
    open_port(sock)
    server = HttpServer(build_app(engine.client, args), sock)
    serving = asyncio.create_task(server.serve())
    stop = asyncio.create_task(told_to_stop.wait())
    logger.info("listening on http://%s:%d", args.host, sock.getsockname()[1])
    waits: set[asyncio.Future[Any]] = {serving, stop, engine.death}
    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    if stop.done():
        logger.info("told to stop: open requests have %g s to finish", args.drain_timeout)
        await engine.client.drain(args.drain_timeout, hurry=told_twice)
    stop.cancel()
    server.stop()
    await asyncio.wait({serving}, timeout=FAILURE_GRACE_S if engine.death.done() else CLOSE_GRACE_S)
    server.stop(force=True)
    await serving
    if engine.death.done():
        logger.critical("the server ends: %s", engine.death.result())
    return 1 if engine.death.done() else 0


def _on_signals(callback: Callable[[], object]) -> None:
    for number in SIGNALS:
        asyncio.get_running_loop().add_signal_handler(number, callback)


if __name__ == "__main__":
    sys.exit(main())
