"""Load a server with everything that clients do, for a while, and see that it is afterwards as it was before.

    .venv/bin/python scripts/soak.py --minutes 5
    .venv/bin/python scripts/soak.py --minutes 60 --report ~/soak --flag=--model-path=/models/Qwen3-0.6B

Starts a server of its own, with made-up answers unless `--flag` names a model. What is filled once, like the
tokenizer's memory of words, is filled first, and the load runs until no process grows any more. Then it counts. Before
and behind the run, when nothing has been open for a minute: memory and descriptors of each process, the scheduler's
books, the text of a probe. Prints a table; `--report` draws the curves. Exit code 1 if
anything has grown beyond its limit, or any client saw what it should not.
"""

import argparse
import asyncio
import random
import resource
import string
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx

from bench_server import OwnServer, own_server
from soak_traffic import IdleConnections, Traffic
from soak_watch import MIB, Growth, ProcessSize, Sample, call, sizes_of, watch, write_report

NUM_FRONTS = 2
DEFAULT_FLAGS = (
    *("--load-format", "mock", "--mock-step-ms", "5", "--tokenizer-worker-num", str(NUM_FRONTS)),
    *("--max-running-requests", "32", "--max-queued-requests", "32", "--max-total-tokens", "20000"),
    # A client that is sent a 408 though it did its best had no core for so long: it is one process, beside others.
    *("--http-read-timeout", "10"),
)
LONGEST_MINUTES = 24 * 60
SLACK_DESCRIPTORS = 3
REST_S = 65.0  # longer than IDLE_S of srt/util/freed_memory.py
# The tokenizer remembers 10,000 words in each thread that asks it. Of each front, one has all prompts as short as these
# and those of the load; so many more words make sure of each.
NUM_TEXTS, WORDS_PER_TEXT = 80, 1_200
WARM_UP_S, MAX_WARM_UPS = 60.0, 10
# It is warm when nobody has grown by this share in such a time.
SETTLED = 0.01
PROBE = {"text": "The river", "sampling_params": {"temperature": 0, "max_new_tokens": 24, "ignore_eos": True}}
MUST_BE_ZERO = ("num_running_reqs", "num_waiting_reqs", "num_used_tokens", "num_ledger_repairs")
# Those of the sockets that are neither idle nor at work.
SPARE_DESCRIPTORS = 500


@dataclass(frozen=True)
class Rest:
    """The server when nothing is open."""

    sizes: dict[str, ProcessSize]
    probe: str
    books: dict[str, int]


def come_to_rest(server: OwnServer) -> Rest:
    """Wait until nothing is open, then look."""
    call(server, "/flush_cache?timeout=100", {})
    probe = str(call(server, "/generate", PROBE)["text"])
    call(server, "/flush_cache?timeout=100", {})
    # A scheduler that has nothing to do for so long gives back what it kept for the next step: between two such
    # moments its memory goes up and down by some MiB. Till then, closed connections have been noticed, too.
    time.sleep(REST_S)
    info = call(server, "/server_info")
    books = {
        f"{name} of {i}": int(state[name])
        for i, state in enumerate(info["internal_states"])
        for name in MUST_BE_ZERO
    }
    for worker in info["tokenizer_workers"]:
        books[f"num_open_answers of front {worker['tokenizer_worker']}"] = int(worker["num_open_answers"])
    return Rest(sizes_of(server), probe, books)


async def fill_memories(server: OwnServer, seed: int) -> None:
    """Let whoever tokenises short prompts see more words than it will ever remember."""
    draw = random.Random(seed)
    texts = [
        " ".join("".join(draw.choices(string.ascii_lowercase, k=5)) for _ in range(WORDS_PER_TEXT))
        for _ in range(NUM_TEXTS)
    ]
    limits = httpx.Limits(max_connections=4 * NUM_FRONTS)
    async with httpx.AsyncClient(base_url=server.url, timeout=120, limits=limits) as client:

        async def ask(text: str) -> None:
            body = {"text": text, "sampling_params": {"max_new_tokens": 1}}
            (await client.post("/generate", json=body)).raise_for_status()

        await asyncio.gather(*map(ask, texts))


def is_settled(earlier: Rest, now: Rest) -> bool:
    """Whether no process grows any more as it does while its caches fill."""
    return all(
        title in earlier.sizes
        and not Growth(earlier.sizes[title].num_bytes, size.num_bytes).is_more_than(SETTLED)
        for title, size in now.sizes.items()
    )


def growths(before: Rest, after: Rest) -> Iterator[tuple[str, Growth]]:
    """Of each process that is there in both."""
    for title in sorted(before.sizes.keys() & after.sizes.keys()):
        yield title, Growth(before.sizes[title].num_bytes, after.sizes[title].num_bytes)


def breaches(before: Rest, after: Rest, *, max_growth: float) -> Iterator[str]:
    """What is not as it was."""
    for title in sorted(before.sizes.keys() - after.sizes.keys()):
        yield f"{title} is gone"
    for title, growth in growths(before, after):
        if growth.is_more_than(max_growth):
            yield f"{title} has grown from {growth.begun / MIB:.1f} to {growth.ended / MIB:.1f} MiB"
    for title, size in after.sizes.items():
        old = before.sizes.get(title)
        if old is not None and size.num_descriptors > old.num_descriptors + SLACK_DESCRIPTORS:
            yield f"{title} has {size.num_descriptors} descriptors open, {old.num_descriptors} before"
    for name, value in after.books.items():
        if value:
            yield f"{name} is {value}"
    if after.probe != before.probe:
        yield f"the probe says {after.probe!r}, and said {before.probe!r}"


def render(before: Rest, after: Rest, traffic: Traffic) -> str:
    """The tables."""
    lines = [
        "| process | MiB before | after | growth | descriptors before, after | threads |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    for title, growth in growths(before, after):
        old, new = before.sizes[title], after.sizes[title]
        lines.append(
            f"| {title} | {growth.begun / MIB:.1f} | {growth.ended / MIB:.1f} | {growth.share:+.1%} "
            f"| {old.num_descriptors}, {new.num_descriptors} | {old.num_threads}, {new.num_threads} |"
        )
    lines += ["", "| what clients did, and saw | times |", "|---|--:|"]
    lines += [f"| {outcome} | {count:,} |" for outcome, count in sorted(traffic.seen.items())]
    return "\n".join(lines)


@dataclass(frozen=True)
class Soaked:
    """What came of it."""

    before: Rest
    after: Rest
    samples: Sequence[Sample]
    traffic: Traffic
    num_idle: int
    num_reopened: int


async def soak(server: OwnServer, options: argparse.Namespace) -> Soaked:
    """Warm up, look, load it, look again."""
    seconds = 60.0 * options.minutes
    idle = IdleConnections(server.host, server.port, options.idle_connections)
    address = server.url, server.host, server.port
    samples: list[Sample] = []
    await fill_memories(server, options.seed)

    async def load(for_s: float, seed: int, samples: list[Sample], idle: IdleConnections) -> Traffic:
        traffic = Traffic(*address, seed=seed, concurrency=options.concurrency)
        beside = [asyncio.create_task(idle.hold()), asyncio.create_task(watch(server, for_s, samples))]
        await traffic.run(for_s, options.max_requests)
        for task in beside:
            if task.done():
                task.result()
            task.cancel()
        await asyncio.wait(beside)
        return traffic

    before = None
    for number in range(MAX_WARM_UPS):
        await load(min(seconds, WARM_UP_S), options.seed - 1 - number, [], idle)
        earlier, before = before, await asyncio.to_thread(come_to_rest, server)
        say(f"warm-up {number + 1}: {sum(size.num_bytes for size in before.sizes.values()) / MIB:.1f} MiB")
        if earlier is not None and is_settled(earlier, before):
            break
    assert before is not None
    say(f"warm; now {options.minutes:g} minutes")
    idle.num_reopened = 0
    traffic = await load(seconds, options.seed, samples, idle)
    after = await asyncio.to_thread(come_to_rest, server)
    return Soaked(before, after, samples, traffic, options.idle_connections, idle.num_reopened)


def say(what: str) -> None:
    """To whoever waits."""
    print(what, file=sys.stderr, flush=True)


def parse_options(argv: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--max-requests", type=int, default=1_000_000)
    parser.add_argument("--concurrency", type=int, default=48)
    parser.add_argument("--idle-connections", type=int, default=2000)
    parser.add_argument("--max-growth", type=float, default=0.02, help="Share by which memory may grow.")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--flag", action="append", help="Of the server, in place of the usual ones.")
    parser.add_argument("--report", type=Path, help="Folder for the tables and curves.")
    options = parser.parse_args(argv)
    if not 0 < options.minutes <= LONGEST_MINUTES:
        parser.error(f"--minutes must be between 0 and {LONGEST_MINUTES}")
    return options


def allow_descriptors(num_connections: int) -> None:
    """As many as that needs, if the system lets us."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = num_connections + SPARE_DESCRIPTORS
    if hard != resource.RLIM_INFINITY and wanted > hard:
        raise SystemExit(f"--idle-connections: {wanted} descriptors are needed, {hard} allowed (ulimit -Hn)")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code 1 on a breach."""
    options = parse_options(argv)
    allow_descriptors(options.idle_connections)
    begun = time.monotonic()
    with own_server([*(options.flag or DEFAULT_FLAGS), "--log-level", "warning"]) as server:
        soaked = asyncio.run(soak(server, options))
        log = server.log_text()
    found = list(breaches(soaked.before, soaked.after, max_growth=options.max_growth))
    found += [f"a client saw: {surprise}" for surprise in soaked.traffic.surprises[:10]]
    if "Traceback" in log:
        found.append("there is a traceback in the log")
    text = "\n".join(
        [
            f"{options.minutes:g} minutes after the warm-up, {sum(soaked.traffic.seen.values()):,} clients, "
            f"{options.concurrency} at once, beside {soaked.num_idle:,} idle connections "
            f"({soaked.num_reopened:,} opened again after the server had closed them).",
            "",
            render(soaked.before, soaked.after, soaked.traffic),
            "",
            "\n".join(f"**BREACH** {breach}" for breach in found) or "Nothing is otherwise than before.",
        ]
    )
    print(text)
    say(f"{time.monotonic() - begun:.0f} s in all")
    if options.report is not None:
        write_report(options.report, text, soaked.samples)
    if found:
        say(f"the log's end:\n{log[-3000:]}")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
