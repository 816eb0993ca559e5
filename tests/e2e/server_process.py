"""A Lockstep server as a real process on loopback, for end-to-end tests."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import httpx
import openai
import psutil

START_DEADLINE_S = 180.0
POLL_S = 0.05
# Unless a test says otherwise: threads that wait for each other on a busy machine take five times the CPU of one.
ONE_THREAD = ("--cpu-threads", "1")
# For httpx: to read the certificates of the world takes 30 ms of a core, and clients are made by the hundred.
WITHOUT_TLS = False


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def stand_still(*processes: psutil.Process, seconds: float) -> None:
    """Stop them, and let them go on some time later."""
    for process in processes:
        process.suspend()
    threading.Event().wait(seconds)
    for process in processes:
        process.resume()


class ServerProcess:
    """Started by the constructor, ready when `with` enters, gone when it leaves.

    The log goes to a file: a pipe that nobody reads would block the server one day.
    """

    def __init__(self, *flags: str, env: dict[str, str] | None = None, port: int | None = None) -> None:
        self.port = port or free_port()
        self.base_url = f"http://127.0.0.1:{self.port}"
        # Every request has a connection of its own, so that none is open when a test counts them.
        limits = httpx.Limits(max_keepalive_connections=0)
        self.http = httpx.Client(base_url=self.base_url, timeout=120, verify=WITHOUT_TLS, limits=limits)
        self._openai: openai.OpenAI | None = None
        self.tmpdir = Path(tempfile.mkdtemp(prefix="lockstep-e2e-"))
        # When nobody can ask for the log any more.
        weakref.finalize(self, shutil.rmtree, self.tmpdir, ignore_errors=True)
        self._log: IO[bytes] = (self.tmpdir / "server.log").open("wb")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "launch_server", "--port", str(self.port), *ONE_THREAD, *flags],
            stdout=self._log,
            stderr=subprocess.STDOUT,
            # The sockets' private folder goes there too, so that a test can see whether it is left behind.
            env={**os.environ, "TMPDIR": str(self.tmpdir), **(env or {})},
        )

    def __enter__(self) -> "ServerProcess":
        deadline = time.monotonic() + START_DEADLINE_S
        while not self.is_healthy():
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                raise AssertionError(f"the server did not start:\n{self.log()}")
            time.sleep(POLL_S)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()
        if kind is not None:
            print(self.log()[-8000:])  # noqa: T201 (pytest shows it with the failure)

    def is_healthy(self) -> bool:
        try:
            return self.http.get("/health", timeout=5).status_code == 200
        except httpx.TransportError:
            return False

    def log(self) -> str:
        return (self.tmpdir / "server.log").read_text(errors="replace")

    def tree(self) -> list[psutil.Process]:
        """Main process first, then its children."""
        main = psutil.Process(self.process.pid)
        return [main, *main.children(recursive=True)]

    def child(self, title_part: str) -> psutil.Process:
        """The one child whose title holds `title_part`."""
        (found,) = [p for p in self.tree() if title_part in " ".join(p.cmdline())]
        return found

    def named(self, title_part: str) -> psutil.Process:
        """The main process by its module, or the one child whose title holds `title_part`."""
        return psutil.Process(self.process.pid) if title_part == "launch_server" else self.child(title_part)

    def leftovers(self) -> list[str]:
        """Files and folders in the server's TMPDIR besides its log."""
        return sorted(p.name for p in self.tmpdir.iterdir() if p.name != "server.log")

    def terminate(self, timeout_s: float = 60) -> int:
        """SIGTERM, and the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.wait(timeout_s)

    def wait(self, timeout_s: float = 60) -> int:
        """The exit code, once it has ended by itself."""
        return self.process.wait(timeout_s)

    def stop(self) -> None:
        """End it however it is."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                for process in self.tree():
                    process.kill()
                self.process.wait(20)
        if self._openai is not None:
            self._openai.close()
        self._log.close()

    def client(self) -> openai.OpenAI:
        """The official client, one for all who ask."""
        if self._openai is None:
            http = openai.DefaultHttpxClient(verify=WITHOUT_TLS)
            url = f"{self.base_url}/v1"
            self._openai = openai.OpenAI(base_url=url, api_key="none", max_retries=0, http_client=http)
        return self._openai

    def async_http(self, **options: Any) -> httpx.AsyncClient:
        """For many requests at once."""
        return httpx.AsyncClient(base_url=self.base_url, verify=WITHOUT_TLS, **{"timeout": 120, **options})

    def get(self, path: str) -> Any:
        return self.http.get(path, timeout=30).raise_for_status().json()

    def post(self, path: str, body: Any) -> httpx.Response:
        return self.http.post(path, json=body)

    def generate(self, text: str | Sequence[int], **sampling: Any) -> str:
        """Greedy text of the native endpoint."""
        prompt = {"text": text} if isinstance(text, str) else {"input_ids": list(text)}
        body = {**prompt, "sampling_params": {"temperature": 0, **sampling}}
        return str(self.post("/generate", body).raise_for_status().json()["text"])

    def wait_until_idle(self) -> None:
        """Empties the cache: the flush waits for idleness itself, and says so when it did not come."""
        response = self.http.post("/flush_cache", params={"timeout": 60})
        assert response.status_code == 200, response.text

    def used_tokens(self) -> int:
        """KV slots that requests hold now, by the scheduler itself; evictable cache does not count."""
        return sum(int(state["num_used_tokens"]) for state in self.get("/server_info")["internal_states"])
