"""Where the time of a request goes: sends requests, and says what share queue, prefill, decode and the rest had of it.

    .venv/bin/python scripts/split_latency.py --concurrency 1 16

Needs a server with --enable-metrics and no other traffic: the server's own sums are read before and after. They are
compared with what the clients have measured; if the two are further apart than --tolerance, the exit code is 1.
"""

import argparse
import json
import re
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import uvloop

from bench_client import Answer, Target, send_all
from bench_serving import Workload, make_bodies
from srt.observability.request_timing import SEGMENTS

_LINE = re.compile(r'^lockstep_request_segment_seconds_(sum|count)\{.*segment="(\w+)"\} (\S+)$', re.MULTILINE)
# Between the last byte that a client gets and the moment at which the server has noted it.
SETTLE_S = 2.0


@dataclass(frozen=True)
class SegmentSums:
    """Seconds of each segment since the server's start, and of how many requests."""

    seconds: Mapping[str, float]
    num_requests: int

    def since(self, before: "SegmentSums") -> "SegmentSums":
        """What came in between."""
        seconds = {name: self.seconds[name] - before.seconds[name] for name in self.seconds}
        return SegmentSums(seconds, self.num_requests - before.num_requests)


def parse_sums(page: str) -> SegmentSums:
    """What /metrics says. Raises ValueError if it says nothing of segments."""
    found = {(kind, name): float(value) for kind, name, value in _LINE.findall(page)}
    missing = [name for name in SEGMENTS if ("sum", name) not in found]
    if missing:
        raise ValueError(f"/metrics tells nothing of the segment {missing[0]}")
    return SegmentSums(
        {name: found["sum", name] for name in SEGMENTS}, int(found["count", next(iter(SEGMENTS))])
    )


@dataclass(frozen=True)
class Split:
    """One run: mean seconds a request, by the server's segments, and by its client."""

    concurrency: int
    num_requests: int
    segments: Mapping[str, float]
    wall_s: float

    @property
    def shares(self) -> Mapping[str, float]:
        """Seconds by what they were for."""
        shares: dict[str, float] = {}
        for name, seconds in self.segments.items():
            shares[SEGMENTS[name]] = shares.get(SEGMENTS[name], 0.0) + seconds
        return shares

    @property
    def error(self) -> float:
        """How far the sum of all segments is from the client's time, as a part of that."""
        return sum(self.segments.values()) / self.wall_s - 1


def split(sums: SegmentSums, answers: Sequence[Answer], concurrency: int) -> Split:
    """A run's split, if every request was answered. Raises ValueError."""
    failed = [answer.error for answer in answers if answer.error is not None]
    if failed:
        raise ValueError(f"{len(failed)} requests failed, the first with: {failed[0]}")
    if sums.num_requests != len(answers):
        raise ValueError(f"the server has answered {sums.num_requests} requests, these were {len(answers)}")
    segments = {name: seconds / len(answers) for name, seconds in sums.seconds.items()}
    wall_s = sum(answer.ended_at - answer.sent_at for answer in answers) / len(answers)
    return Split(concurrency, len(answers), segments, wall_s)


def render(result: Split) -> str:
    """A table for people."""
    lines = [f"{result.num_requests} requests, {result.concurrency} at a time; mean of each:"]
    for share, seconds in result.shares.items():
        lines.append(f"  {share:<24} {seconds * 1e3:10.2f} ms  {seconds / result.wall_s:6.1%}")
        for name, part in result.segments.items():
            if SEGMENTS[name] == share != name:
                lines.append(f"    {name:<22} {part * 1e3:10.2f} ms")
    total = sum(result.segments.values())
    lines.append(f"  {'sum':<24} {total * 1e3:10.2f} ms  {total / result.wall_s:6.1%}")
    lines.append(f"  {'the client measured':<24} {result.wall_s * 1e3:10.2f} ms  ({result.error:+.2%})")
    return "\n".join(lines)


def run(options: argparse.Namespace, target: Target, concurrency: int, seed: int) -> Split:
    """One run. Raises ValueError, OSError."""
    num_requests = max(options.num_requests, concurrency)
    workload = Workload(options.api, concurrency, num_requests, options.input_len, options.output_len)
    requests = [target.encode(options.api, body) for body in make_bodies(options, workload, seed)]
    before = read_sums(target.url)
    answers = uvloop.run(send_all(target, requests, concurrency, options.timeout, lambda answer: None))
    deadline = time.monotonic() + SETTLE_S
    while True:
        sums = read_sums(target.url).since(before)
        if sums.num_requests >= len(answers) or time.monotonic() > deadline:
            return split(sums, answers, concurrency)


def read_sums(url: str) -> SegmentSums:
    """The server's sums now."""
    with urlopen(f"{url}/metrics") as response:
        return parse_sums(response.read().decode())


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code 1 when something failed, or the times do not agree."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--base-url", default="http://127.0.0.1:30000")
    parser.add_argument("--api", choices=("completions", "chat"), default="chat")
    parser.add_argument("--concurrency", type=int, nargs="+", default=[1], help="One run for each.")
    parser.add_argument("--num-requests", type=int, default=16, help="In each run, at least.")
    parser.add_argument("--input-len", type=int, default=128)
    parser.add_argument("--output-len", type=int, default=64)
    parser.add_argument("--vocab-size", type=int, default=32000)
    parser.add_argument("--timeout", type=float, default=600.0)
    parser.add_argument("--tolerance", type=float, default=0.02)
    parser.add_argument("--json", type=Path, help="Write the means here.")
    options = parser.parse_args(argv)
    target = Target(options.base_url, None)
    options.no_ignore_eos, options.extra_body = False, {}
    try:
        options.model = target.first_model()
        run(options, target, 1, seed=0)  # the first requests of a server are not like those that follow
        results = [run(options, target, concurrency, seed=concurrency) for concurrency in options.concurrency]
    except (OSError, ValueError) as error:
        print(f"{target.url}: {error}", file=sys.stderr)
        return 1
    print("\n\n".join(map(render, results)))
    if options.json is not None:
        options.json.write_text(json.dumps([to_json(result) for result in results], indent=2) + "\n", "utf-8")
    return int(any(abs(result.error) > options.tolerance for result in results))


def to_json(result: Split) -> dict[str, Any]:
    """One run, for programs."""
    return {
        "concurrency": result.concurrency,
        "num_requests": result.num_requests,
        "segments_s": dict(result.segments),
        "shares_s": dict(result.shares),
        "wall_s": result.wall_s,
        "error": result.error,
    }


if __name__ == "__main__":
    sys.exit(main())
