"""A server of one's own for a measurement: started on a free port, stopped at the end, its log shown if it fails."""

import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO
from urllib.error import URLError
from urllib.request import urlopen

START_TIMEOUT_S = 120.0
STOP_TIMEOUT_S = 60.0


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
