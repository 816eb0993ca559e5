"""How long a server takes from the command to its first answers, and where the time goes: see docs/performance.md.

`python -m scripts.bench_start [--runs N] [-- flags of the server]`. Each run starts a server, waits for `/health`, asks
a few times for one token in a chat, and stops it. Wall times mean something on an idle machine only; processor seconds
are those of each process until `/health`, and of all of them for each request.
"""

import argparse
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import httpx
import psutil

POLL_S = 0.01
LIMIT_S = 300.0
WORDS = ("sun", "moon", "river", "stone")
NUM_WORDS = 150
NAME = re.compile(r"lockstep::(\S+)")


@dataclass(frozen=True)
class Start:
    """One run. Times in seconds from the command."""

    healthy: float
    first_answer: float
    requests: list[tuple[float, float]]  # each one's, and the processor's
    cpu: dict[str, float]
    parts: str  # of the scheduler's start, as it logs them


def main() -> None:
    """Print a row a run, then the medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("flags", nargs="*", help="of the server")
    args = parser.parse_args()
    starts = []
    for _ in range(args.runs):
        start = measure(args.flags)
        starts.append(start)
        cpu = ", ".join(f"{name} {seconds:.2f}" for name, seconds in start.cpu.items())
        requests = ", ".join(f"{1e3 * took:.0f} ({1e3 * cpu_s:.0f})" for took, cpu_s in start.requests)
        print(
            f"healthy after {start.healthy:.2f} s, first token after {start.first_answer:.2f} s\n"
            f"  one request after another, ms, and the processor's: {requests}\n"
            f"  processor s until healthy: {cpu}; in all {sum(start.cpu.values()):.2f}\n"
            f"  scheduler: {start.parts}",
            flush=True,
        )
    healthy, first = (
        statistics.median(getattr(start, field) for start in starts) for field in ("healthy", "first_answer")
    )
    print(f"median: healthy after {healthy:.2f} s, first token after {first:.2f} s")


def measure(flags: list[str]) -> Start:
    """One server, from its command to its second answer."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with (
        tempfile.TemporaryDirectory() as folder,
        Path(folder, "log").open("w+b") as log,
        httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60, verify=False) as client,
    ):
        began = time.monotonic()
        server = subprocess.Popen(
            [sys.executable, "-m", "launch_server", "--port", str(port), *flags],
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        try:
            wait_until_healthy(client, server, began + LIMIT_S)
            healthy, cpu = time.monotonic() - began, processor_seconds(server.pid)
            requests = [ask(client, server.pid, number) for number in range(len(WORDS))]
            log.seek(0)
            found = re.search(rb"processor's time: (.*)", log.read())
            parts = found[1].decode() if found else "tells nothing"
            return Start(healthy, healthy + requests[0][0], requests, cpu, parts)
        finally:
            server.terminate()
            server.wait(30)


def wait_until_healthy(client: httpx.Client, server: "subprocess.Popen[bytes]", deadline: float) -> None:
    """Returns with the first good answer."""
    while server.poll() is None and time.monotonic() < deadline:
        try:
            if client.get("/health").status_code == httpx.codes.OK:
                return
        except httpx.TransportError:
            time.sleep(POLL_S)
    raise SystemExit("the server did not start")


def processor_seconds(pid: int) -> dict[str, float]:
    """Of the server's processes, by name; those that have ended count for who started them."""
    found: dict[str, float] = {}
    for process in [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]:
        times = process.cpu_times()
        match = NAME.search(" ".join(process.cmdline()))
        name = match[1] if match else "main" if process.pid == pid else process.name()
        found[name] = found.get(name, 0.0) + sum(times[:4])
    return found


def ask(client: httpx.Client, pid: int, number: int) -> tuple[float, float]:
    """Seconds, and processor seconds, for one token behind a prompt that shares nothing with another."""
    words = " ".join(f"{WORDS[number]} {index % 7}" for index in range(NUM_WORDS))
    body = {"model": "any", "messages": [{"role": "user", "content": words}], "max_tokens": 1, "stream": True}
    start, cpu = time.monotonic(), sum(processor_seconds(pid).values())
    client.post("/v1/chat/completions", json=body).raise_for_status()
    took = time.monotonic() - start
    return took, sum(processor_seconds(pid).values()) - cpu


if __name__ == "__main__":
    main()
