"""Servers for a measurement: started on a free port, stopped at the end, their words shown if they fail.

`own_server` starts ours, `running_server` anybody's.
"""

import os
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO
from urllib.error import URLError
from urllib.request import urlopen

import psutil

START_TIMEOUT_S = 120.0
STOP_TIMEOUT_S = 60.0
PATIENCE_S = 30.0  # with others' servers
LOG_LINES = 5


@dataclass(frozen=True)
class OwnServer:
    """One that runs."""

    host: str
    port: int
    process: "subprocess.Popen[bytes]"
    log: IO[bytes]

    @property
    def url(self) -> str:
        """Without a path."""
        return f"http://{self.host}:{self.port}"

    @property
    def pid(self) -> int:
        """Of the main process."""
        return self.process.pid

    def log_text(self) -> str:
        """What it has said so far."""
        self.log.seek(0)
        return self.log.read().decode(errors="replace")


@contextmanager
def own_server(flags: Sequence[str]) -> Iterator[OwnServer]:
    """`python -m launch_server` with these flags while the context lasts, which SIGTERM ends, too."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "launch_server", "--port", str(port), *flags],
            cwd=Path(__file__).resolve().parent.parent,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        server = OwnServer("127.0.0.1", port, process, log)
        try:
            if not _is_up(server):
                raise SystemExit(f"the server did not start:\n{server.log_text()}")
            yield server
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                process.wait(STOP_TIMEOUT_S)


def _is_up(server: OwnServer) -> bool:
    deadline = time.monotonic() + START_TIMEOUT_S
    while server.process.poll() is None and time.monotonic() < deadline:
        try:
            with urlopen(f"{server.url}/health", timeout=5):
                return True
        except (URLError, OSError):
            time.sleep(0.1)
    return False


class Failed(Exception):
    """A server cannot be measured; the message says why."""


@contextmanager
def running_server(
    start: str, log: Path, *, env: Mapping[str, str], health: str, timeout_s: float
) -> Iterator[tuple[str, int, float]]:
    """Anybody's: its URL, the pid of its first process, and how long it took to answer `health`.

    `start` is a command line in which {port} stands for a free port. None of its processes is left. Raises Failed.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    with log.open("ab") as sink:
        try:
            process = subprocess.Popen(
                [word.replace("{port}", str(port)) for word in shlex.split(start)],
                env={**os.environ, **env},
                stdout=sink,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C is ours: we end it in order
            )
        except OSError as error:
            raise Failed(f"did not start: {error}") from None
    try:
        started = time.monotonic()
        url = f"http://127.0.0.1:{port}"
        while not _answers(url + health):
            if process.poll() is not None or time.monotonic() - started > timeout_s:
                why = "ended" if process.poll() is not None else "did not answer in time"
                raise Failed(f"{why}: {_last_lines(log)}")
            time.sleep(0.05)
        yield url, process.pid, time.monotonic() - started
    finally:
        _end(process)


def _answers(url: str) -> bool:
    with suppress(URLError, OSError), urlopen(url, timeout=5):
        return True
    return False


def _last_lines(log: Path) -> str:
    return " / ".join(log.read_text(errors="replace").splitlines()[-LOG_LINES:])


def _end(process: "subprocess.Popen[bytes]") -> None:
    """In order if it can, by force if it must; and all that it started, by their pids."""
    if process.poll() is None:
        process.terminate()
    with suppress(subprocess.TimeoutExpired):
        process.wait(PATIENCE_S)
    for survivor in psutil.process_iter():
        with suppress(psutil.Error, ProcessLookupError):
            if os.getsid(survivor.pid) == process.pid:  # the session that we made for it
                survivor.kill()
    process.wait()


@contextmanager
def limited(pid: int, seconds: float) -> Iterator[None]:
    """A server that hangs is killed then: its connections break, and so the run comes to its end."""
    timer = threading.Timer(seconds, os.kill, (pid, signal.SIGKILL))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
