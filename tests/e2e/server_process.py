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
        self.tmpdir = Path(tempfile.mkdtemp(prefix="lockstep-e2e-"))
        # When nobody can ask for the log any more.
        weakref.finalize(self, shutil.rmtree, self.tmpdir, ignore_errors=True)
        self._log: IO[bytes] = (self.tmpdir / "server.log").open("wb")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "launch_server", "--port", str(self.port), *flags],
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
            return httpx.get(f"{self.base_url}/health", timeout=5).status_code == 200
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
        self._log.close()

    def client(self, **options: Any) -> openai.OpenAI:
        return openai.OpenAI(base_url=f"{self.base_url}/v1", api_key="none", max_retries=0, **options)

    def async_client(self, **options: Any) -> openai.AsyncOpenAI:
        return openai.AsyncOpenAI(base_url=f"{self.base_url}/v1", api_key="none", max_retries=0, **options)

    def get(self, path: str) -> Any:
        return httpx.get(f"{self.base_url}{path}", timeout=30).raise_for_status().json()

    def post(self, path: str, body: Any) -> httpx.Response:
        return httpx.post(f"{self.base_url}{path}", json=body, timeout=120)

    def generate(self, text: str | Sequence[int], **sampling: Any) -> str:
        """Greedy text of the native endpoint."""
        prompt = {"text": text} if isinstance(text, str) else {"input_ids": list(text)}
        body = {**prompt, "sampling_params": {"temperature": 0, **sampling}}
        return str(self.post("/generate", body).raise_for_status().json()["text"])

    def wait_until_idle(self) -> None:
        """Empties the cache: the flush waits for idleness itself, and says so when it did not come."""
        response = httpx.post(f"{self.base_url}/flush_cache", params={"timeout": 60}, timeout=90)
        assert response.status_code == 200, response.text

    def used_tokens(self) -> int:
        """KV slots that requests hold now; evictable cache does not count."""
        (load,) = self.get("/v1/loads")["loads"]
        return int(load["num_used_tokens"])
