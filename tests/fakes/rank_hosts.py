"""Processes for ranks: one host a rank, with a hash seed and clocks of its own, and a fresh process for each job.

A host imports everything once and forks for each job, so that a job costs milliseconds, not the import of torch.
This file imports nothing but the standard library, so that a host's clocks are wrong before anybody has looked.
"""

import faulthandler
import gc
import importlib
import multiprocessing
import os
import time
import traceback
from collections.abc import Sequence
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any

HASH_SEEDS = ("1", "4294967295", "77")
SKEWS_S = (0.0, 7 * 3600.0, -5 * 3600.0)
CLOCKS = ("time", "monotonic", "perf_counter")
# A job that takes longer hangs: its process writes down where it stands, and ends with code 1.
LIMIT_S = 60.0


class RankHosts:
    """`size` hosts, started when `with` enters, gone when it leaves. Jobs are importable functions."""

    def __init__(self, size: int, *, preload: str) -> None:
        context = multiprocessing.get_context("spawn")
        self._connections: list[Connection] = []
        self._processes = []
        inherited = os.environ.get("PYTHONHASHSEED")
        try:
            for rank in range(size):
                os.environ["PYTHONHASHSEED"] = HASH_SEEDS[rank]
                ours, theirs = context.Pipe()
                process = context.Process(target=_host, args=(theirs, SKEWS_S[rank], preload), daemon=True)
                process.start()
                theirs.close()
                self._connections.append(ours)
                self._processes.append(process)
        finally:
            del os.environ["PYTHONHASHSEED"]
            if inherited is not None:
                os.environ["PYTHONHASHSEED"] = inherited

    def __enter__(self) -> "RankHosts":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.join()

    def run(self, target: str, arguments: Sequence[tuple[Any, ...]], limit_s: float = LIMIT_S) -> list[int]:
        """Call `target`, "module:function", with a tuple of arguments in a new process of each host; exit codes."""
        connections = self._connections[: len(arguments)]
        for connection, values in zip(connections, arguments, strict=True):
            connection.send((target, values, limit_s))
        return [int(connection.recv()) for connection in connections]


def _host(connection: Connection, skew_s: float, preload: str) -> None:
    skew_clocks(skew_s)
    importlib.import_module(preload)
    gc.freeze()  # a collection would write to, and so copy, every page that a fork shares
    while True:
        try:
            target, arguments, limit_s = connection.recv()
        except EOFError:
            return
        pid = os.fork()
        if pid == 0:
            _run_job(target, arguments, limit_s)
        _, status = os.waitpid(pid, 0)
        connection.send(os.waitstatus_to_exitcode(status))


def _run_job(target: str, arguments: tuple[Any, ...], limit_s: float) -> None:
    exit_code = 1
    try:
        faulthandler.dump_traceback_later(limit_s, exit=True)
        module, _, name = target.partition(":")
        getattr(importlib.import_module(module), name)(*arguments)
        exit_code = 0
    except BaseException:
        traceback.print_exc()
        raise
    finally:
        os._exit(exit_code)


def skew_clocks(skew_s: float) -> None:
    """Let every clock of this process be wrong, whoever asks."""
    for name in CLOCKS:
        _skew(name, skew_s)
        _skew(f"{name}_ns", int(skew_s * 1e9))


def _skew(name: str, skew: float) -> None:
    read = getattr(time, name)
    setattr(time, name, lambda: read() + skew)
