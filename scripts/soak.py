"""Load a server with everything that clients do, for a while, and see that it is afterwards as it was before.

    .venv/bin/python scripts/soak.py --minutes 5
    .venv/bin/python scripts/soak.py --minutes 60 --flag=--model-path=/models/Qwen3-0.6B

Starts a server of its own, with made-up answers unless `--flag` names a model. After a warm-up and after the soak
itself it waits until nothing is open, and compares: memory, descriptors and threads of each process, the scheduler's
books, the text of a probe. Prints a table; exit code 1 if anything has grown beyond its limit, or any client saw what
it should not.
"""

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.request import Request, urlopen

import psutil

from bench_server import OwnServer, own_server
from soak_traffic import IdleConnections, Traffic

DEFAULT_FLAGS = (
    *("--load-format", "mock", "--mock-step-ms", "5", "--tokenizer-worker-num", "2"),
    *("--max-running-requests", "32", "--max-queued-requests", "32", "--max-total-tokens", "20000"),
)
LONGEST_MINUTES = 24 * 60
# Allocators keep a little more or less from one moment to the next.
SLACK_BYTES = 3 * 2**20
SLACK_DESCRIPTORS = 3
# It is warm when nobody grows by this share in such a time. Caches of the front are full after 20,000 requests or so.
SETTLED, WARM_UP_S, MAX_WARM_UPS = 0.005, 120.0, 10
PROBE = {"text": "The river", "sampling_params": {"temperature": 0, "max_new_tokens": 24, "ignore_eos": True}}
MUST_BE_ZERO = ("num_running_reqs", "num_waiting_reqs", "num_used_tokens", "num_ledger_repairs")


@dataclass(frozen=True)
class ProcessSize:
    """One process, at rest."""

    num_bytes: int  # that are its own
    num_descriptors: int
    num_threads: int


@dataclass(frozen=True)
class Rest:
    """The server when nothing is open."""

    sizes: dict[str, ProcessSize]
    probe: str
    books: dict[str, int]


def call(server: OwnServer, path: str, body: Any = None) -> Any:
    """A request that must succeed."""
    data = None if body is None else json.dumps(body).encode()
    request = Request(f"{server.url}{path}", data, {"Content-Type": "application/json"})
    with urlopen(request, timeout=120) as response:
        return json.load(response)


def come_to_rest(server: OwnServer) -> Rest:
    """Wait until nothing is open, then look."""
    call(server, "/flush_cache?timeout=100", {})
    probe = str(call(server, "/generate", PROBE)["text"])
    call(server, "/flush_cache?timeout=100", {})
    time.sleep(2.0)  # connections that clients have closed are still to be noticed
    info = call(server, "/server_info")
    books = {
        f"{name} of {i}": int(state[name])
        for i, state in enumerate(info["internal_states"])
        for name in MUST_BE_ZERO
    }
    for worker in info["tokenizer_workers"]:
        books[f"num_open_answers of front {worker['tokenizer_worker']}"] = int(worker["num_open_answers"])
    return Rest(sizes_of(server), probe, books)


def sizes_of(server: OwnServer) -> dict[str, ProcessSize]:
    """Each process by its title; compilers of grammars come and go."""
    main = psutil.Process(server.pid)
    sizes = {}
    for process in [main, *main.children(recursive=True)]:
        title = "main" if process.pid == main.pid else " ".join(process.cmdline())[:40].strip()
        if title.startswith("lockstep::") or process.pid == main.pid:
            memory = process.memory_full_info().uss
            sizes[title] = ProcessSize(memory, process.num_fds(), process.num_threads())
    return sizes


def is_settled(earlier: Rest, now: Rest) -> bool:
    """Whether no process grows any more as it does while its caches fill."""
    return all(
        title in earlier.sizes and size.num_bytes < earlier.sizes[title].num_bytes * (1 + SETTLED)
        for title, size in now.sizes.items()
    )


def _num_bytes(size: ProcessSize) -> int:
    return size.num_bytes


def breaches(before: Rest, after: Rest, *, max_growth: float) -> Iterator[str]:
    """What is not as it was."""
    for title in sorted(before.sizes.keys() - after.sizes.keys()):
        yield f"{title} is gone"
    for title, size in after.sizes.items():
        old = before.sizes.get(title)
        if old is None:
            continue  # a grammar compiler that nobody had needed before
        if size.num_bytes > old.num_bytes * (1 + max_growth) + SLACK_BYTES:
            yield f"{title} has grown from {old.num_bytes / 2**20:.1f} to {size.num_bytes / 2**20:.1f} MiB"
        if size.num_descriptors > old.num_descriptors + SLACK_DESCRIPTORS:
            yield f"{title} has {size.num_descriptors} descriptors open, {old.num_descriptors} before"
    for name, value in after.books.items():
        if value:
            yield f"{name} is {value}"
    if after.probe != before.probe:
        yield f"the probe says {after.probe!r}, and said {before.probe!r}"


def render(before: Rest, after: Rest, traffic: Traffic) -> str:
    """The table."""
    lines = [
        f"{'process':40} {'MiB before':>11} {'after':>8} {'growth':>8}   {'descriptors':>12}   {'threads':>8}"
    ]
    for title, size in after.sizes.items():
        old = before.sizes.get(title, size)
        growth = size.num_bytes / old.num_bytes - 1
        lines.append(
            f"{title:40} {old.num_bytes / 2**20:11.1f} {size.num_bytes / 2**20:8.1f} {growth:8.1%}   "
            f"{old.num_descriptors:5} -> {size.num_descriptors:3}   {old.num_threads:3} -> {size.num_threads}"
        )
    lines += [f"  {count:8,} {outcome}" for outcome, count in sorted(traffic.seen.items())]
    return "\n".join(lines)


async def soak(server: OwnServer, options: argparse.Namespace) -> tuple[Rest, Rest, Traffic]:
    """Warm up, look, load it, look again."""
    idle = IdleConnections(server.host, server.port, options.idle_connections)
    address = server.url, server.host, server.port

    async def load(seconds: float, seed: int) -> Traffic:
        traffic = Traffic(*address, seed=seed, concurrency=options.concurrency)
        holding = asyncio.create_task(idle.hold())
        await traffic.run(seconds, options.max_requests)
        holding.cancel()
        await asyncio.wait({holding})
        return traffic

    seconds = 60.0 * options.minutes
    before = None
    for number in range(MAX_WARM_UPS):
        await load(min(seconds, WARM_UP_S), options.seed - 1 - number)
        earlier, before = before, await asyncio.to_thread(come_to_rest, server)
        print(
            f"warm-up {number + 1}: {sum(map(_num_bytes, before.sizes.values())) / 2**20:.1f} MiB",
            file=sys.stderr,
        )
        if earlier is not None and is_settled(earlier, before):
            break
    assert before is not None
    print(f"warm; now {options.minutes:g} minutes", file=sys.stderr)
    traffic = await load(seconds, options.seed)
    return before, await asyncio.to_thread(come_to_rest, server), traffic


def parse_options(argv: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--max-requests", type=int, default=1_000_000)
    parser.add_argument("--concurrency", type=int, default=48)
    parser.add_argument("--idle-connections", type=int, default=200)
    parser.add_argument("--max-growth", type=float, default=0.02, help="Share by which memory may grow.")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--flag", action="append", help="Of the server, in place of the usual ones.")
    options = parser.parse_args(argv)
    if not 0 < options.minutes <= LONGEST_MINUTES:
        parser.error(f"--minutes must be between 0 and {LONGEST_MINUTES}")
    return options


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code 1 on a breach."""
    options = parse_options(argv)
    with own_server([*(options.flag or DEFAULT_FLAGS), "--log-level", "warning"]) as server:
        before, after, traffic = asyncio.run(soak(server, options))
        found = list(breaches(before, after, max_growth=options.max_growth))
        found += [f"a client saw: {surprise}" for surprise in traffic.surprises[:10]]
        log = server.log_text()
    if "Traceback" in log:
        found.append("there is a traceback in the log")
    print(render(before, after, traffic))
    for breach in found:
        print(f"BREACH  {breach}")
    if found:
        print(f"the log's end:\n{log[-3000:]}", file=sys.stderr)
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
