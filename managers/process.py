"""Run an actor in a child process: name it, let it die with its parent, report how its start went.

An actor is a plain function, named "module:function" so that only the child imports it. It runs until it is
told to stop and then returns (exit code 0). It calls `report_ready` once it can work. A `StartupError` that it
raises becomes one `Failed` message to the launcher; any other exception is logged with its traceback. Both end
the process with exit code 1.

Signals to a child mean nothing: the parent decides when a child stops, by message, else by SIGKILL. (A terminal
sends SIGINT, a service manager SIGTERM to the whole group; running requests must outlive both.)
"""

import ctypes
import faulthandler
import gc
import importlib
import logging
import multiprocessing
import os
import shutil
import signal
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from multiprocessing.context import SpawnProcess
from typing import Any

import setproctitle

from managers.ipc import IpcAddresses, close_all_sockets, send_once
from managers.messages.lifecycle import Failed, LauncherInput, Ready
from managers.pulses import Pulse
from managers.stack_dump import answer_with_stacks
from srt.errors import LockstepError, StartupError
from srt.observability.logging import configure_logging

logger = logging.getLogger(__name__)

_PR_SET_PDEATHSIG = 1
# New objects until the young are looked at; so often until the middle-aged are, and those until all are.
_GC_THRESHOLDS = (10_000, 5, 20)

Facts = Mapping[str, int | float | str | bool | None]


@dataclass(frozen=True, kw_only=True)
class Actor:
    """What one child process runs: `target(*arguments)`, the arguments being picklable values.

    `sweeps`: should the parent be killed, this child removes the folder of the sockets on its way out. For a
    child that is never long in native code: the signal waits for the interpreter's attention.

    `dp_rank`: which replica of the model this child is a part of, if there are several and the server can go on
    without this one.
    """

    name: str
    target: str
    arguments: tuple[Any, ...]
    sweeps: bool = False
    dp_rank: int | None = None


def start_actor(
    actor: Actor, addresses: IpcAddresses, log_level: str, log_format: str = "text"
) -> SpawnProcess:
    """Start a child that runs `actor`.

    To be called from the main thread: on Linux a child outlives its parent's process, but not the thread
    that started it.
    """
    process = multiprocessing.get_context("spawn").Process(
        name=actor.name, target=_run, args=(actor, addresses, log_level, log_format, os.getpid())
    )
    process.start()
    return process


def report_ready(addresses: IpcAddresses, facts: Facts) -> Pulse:
    """Tell the launcher that this process can work. `facts` are for the start-up summary and /server_info.

    From now on the process is expected to give signs of life, once in HEARTBEAT_S or more often: with what is returned.
    Rank 0 of a scheduler gives at least `context_length`, `max_total_num_tokens` and `max_running_requests`. A
    fact `x` may have a companion `x_reason`: one clause that says why.
    """
    keep_out_of_garbage_collection()
    name = multiprocessing.current_process().name
    pulse = Pulse.shared(addresses, name)
    pulse.beat()
    send_once(addresses.launcher_input, Ready(name=name, facts=dict(facts)))
    return pulse


def keep_out_of_garbage_collection() -> None:
    """What exists now stays for good: looking at it again and again would stop every stream for a moment.

    And what comes is looked at seldom. Nearly all of it ends by itself, without the collector; but a thousand open
    streams are a hundred thousand objects, which Python's own thresholds (700, 10, 10) have it go through again for
    every few requests that arrive: a third of what a short request cost.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_GC_THRESHOLDS)


def _run(actor: Actor, addresses: IpcAddresses, log_level: str, log_format: str, parent_pid: int) -> None:
    die_with_parent(parent_pid, folder=addresses.folder if actor.sweeps else None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    setproctitle.setproctitle(f"lockstep::{actor.name}")
    configure_logging(actor.name, log_level, log_format)
    faulthandler.enable()
    answer_with_stacks(addresses, actor.name)
    # Read when torch loads OpenMP. A compute thread spins this often for the others, then sleeps. The default
    # (300,000, milliseconds) keeps a core from the very thread that is waited for as soon as any other program
    # wants one: with two such programs beside two threads, steps took three times as long.
    os.environ.setdefault("GOMP_SPINCOUNT", "10000")
    try:
        _function(actor.target)(*actor.arguments)
        close_all_sockets()
    except StartupError as error:
        _leave(addresses, Failed(name=actor.name, message=str(error)))
    except LockstepError as error:
        logger.critical("%s", error)
        _leave(addresses, Failed(name=actor.name, message=str(error)))
    except Exception as error:
        logger.critical("%s has crashed", actor.name, exc_info=True)
        _leave(addresses, Failed(name=actor.name, message=f"{type(error).__name__}: {error}"))


def _function(target: str) -> Callable[..., None]:
    module, _, name = target.partition(":")
    function: Callable[..., None] = getattr(importlib.import_module(module), name)
    return function


def _leave(addresses: IpcAddresses, message: LauncherInput) -> None:
    send_once(addresses.launcher_input, message)
    logging.shutdown()
    # Not sys.exit: a thread of a crashed actor, or a collective that waits for a peer, must not hold us here.
    os._exit(1)


def die_with_parent(parent_pid: int, *, folder: str | None = None) -> None:
    """Let the kernel end this process when its parent ends, however that happens; then remove `folder`, if given."""

    def on_terminate(signal_number: int, frame: object) -> None:
        if os.getppid() != parent_pid:
            shutil.rmtree(folder or "", ignore_errors=True)
            os._exit(1)

    signal.signal(signal.SIGTERM, on_terminate if folder else signal.SIG_IGN)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM if folder else signal.SIGKILL)
    # The parent may have died before the line above; then no signal comes.
    if os.getppid() != parent_pid:
        os._exit(1)
