"""Load an OpenAI-compatible server that streams, and say how fast it was: a table, and JSON with `--json FILE`.

    .venv/bin/python scripts/bench_serving.py --workload throughput --server-pid PID

Works against any such server, so that several can be measured the same way. Measure on a quiet machine.

What the figures mean. An event is one `data:` line that carries text. TTFT: request written to first text. ITL: between
two arrivals of text (one arrival may hold several events). TPOT: (last text - first text) / (tokens - 1). E2E: request
written to end of stream. Tokens are the server's own count (`usage`), or events where it gives none.
"""

import argparse
import dataclasses
import json
import random
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import uvloop

from bench_client import Answer, Target, send_all
from bench_figures import cpu_seconds, median_of, render_table, summarise

# Words that nearly every vocabulary has as one token.
WORDS = (
    *(
        "time",
        "year",
        "people",
        "way",
        "day",
        "man",
        "thing",
        "woman",
        "life",
        "child",
        "world",
        "school",
        "state",
    ),
    *(
        "family",
        "student",
        "group",
        "country",
        "problem",
        "hand",
        "part",
        "place",
        "case",
        "week",
        "company",
        "system",
    ),
    *(
        "program",
        "question",
        "work",
        "government",
        "number",
        "night",
        "point",
        "home",
        "water",
        "room",
        "mother",
    ),
)


@dataclasses.dataclass(frozen=True)
class Workload:
    """What to send. Lengths are in tokens (in words for chat); `num_groups` 0 means no shared prefix."""

    api: str
    concurrency: int
    num_requests: int
    input_len: int
    output_len: int
    prefix_len: int = 0
    num_groups: int = 0


WORKLOADS = {
    "single": Workload("completions", 1, 8, 128, 128),
    "throughput": Workload("completions", 32, 128, 256, 128),
    "prefix": Workload("completions", 16, 64, 64, 64, prefix_len=1000, num_groups=8),
    "plumbing": Workload("chat", 64, 256, 32, 256),
}


def make_bodies(options: argparse.Namespace, workload: Workload, seed: int) -> Iterator[dict[str, Any]]:
    """The request bodies of one run. Another seed makes other prompts, so no prefix cache helps across runs."""
    draw = random.Random(seed)
    ids = range(100, options.vocab_size)

    def prompt(length: int) -> list[Any]:
        return draw.choices(WORDS if workload.api == "chat" else ids, k=length)

    prefixes = [prompt(workload.prefix_len) for _ in range(workload.num_groups)]
    groups = [i % max(1, workload.num_groups) for i in range(workload.num_requests)]
    draw.shuffle(groups)
    for group in groups:
        parts = (prefixes[group] if prefixes else []) + prompt(workload.input_len)
        body: dict[str, Any] = {
            "model": options.model,
            "max_tokens": workload.output_len,
            "temperature": 0,
            "stream": True,
            "stream_options": {"include_usage": True},
            **({} if options.no_ignore_eos else {"ignore_eos": True}),
        }
        if workload.api == "chat":
            body["messages"] = [{"role": "user", "content": " ".join(parts)}]
        else:
            body["prompt"] = parts
        yield {**body, **options.extra_body}


class Progress:
    """A bar on a terminal, a line every tenth otherwise; always on stderr."""

    def __init__(self, label: str, num_requests: int) -> None:
        self._label, self._total = label, num_requests
        self._num_done = self._num_tokens = self._num_errors = self._shown = 0
        self._started = time.perf_counter()
        self._last_shown = 0.0
        self._is_terminal = sys.stderr.isatty()

    def add(self, answer: Answer) -> None:
        """One request has ended."""
        self._num_done += 1
        self._num_tokens += answer.completion_tokens
        self._num_errors += answer.error is not None
        now = time.perf_counter()
        is_last = self._num_done == self._total
        tenths = self._num_done * 10 // self._total
        if is_last or (now - self._last_shown > 0.2 if self._is_terminal else tenths > self._shown):
            self._shown, self._last_shown = tenths, now
            self._show(now, is_last)

    def _show(self, now: float, is_last: bool) -> None:
        filled = self._num_done * 30 // self._total
        rate = self._num_tokens / max(now - self._started, 1e-9)
        bar = f"[{'#' * filled}{'.' * (30 - filled)}]"
        line = f"{self._label} {bar} {self._num_done}/{self._total} {rate:,.0f} tokens/s"
        if self._num_errors:
            line += f", {self._num_errors} errors"
        start, end = ("\r\x1b[K", "\n" if is_last else "") if self._is_terminal else ("", "\n")
        print(start + line, end=end, file=sys.stderr, flush=True)


def run_once(
    options: argparse.Namespace, target: Target, workload: Workload, seed: int, label: str
) -> dict[str, Any]:
    """One run's figures."""
    requests = [target.encode(workload.api, body) for body in make_bodies(options, workload, seed)]
    progress = Progress(label, len(requests))
    cpu_before, own_before = cpu_seconds(options.server_pid), time.process_time()
    started = time.perf_counter()
    answers = uvloop.run(send_all(target, requests, workload.concurrency, options.timeout, progress.add))
    duration_s = time.perf_counter() - started
    cpu = {"this client": time.process_time() - own_before}
    for name, seconds in cpu_seconds(options.server_pid).items():
        cpu[name] = seconds - cpu_before.get(name, 0.0)
    return {"seed": seed, **summarise(answers, duration_s, cpu)}


def parse_options(argv: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--base-url", default="http://127.0.0.1:30000")
    parser.add_argument("--model", help="Default: the first in /v1/models.")
    parser.add_argument("--api-key")
    parser.add_argument(
        "--workload", choices=WORKLOADS, default="throughput", help="What the next flags change."
    )
    parser.add_argument("--api", choices=("completions", "chat"))
    for name in ("concurrency", "num-requests", "input-len", "output-len", "prefix-len", "num-groups"):
        parser.add_argument(f"--{name}", type=int, dest=name.replace("-", "_"))
    parser.add_argument(
        "--vocab-size", type=int, default=32000, help="Completion prompts are ids below this."
    )
    parser.add_argument("--no-ignore-eos", action="store_true", help="For servers that refuse ignore_eos.")
    parser.add_argument(
        "--extra-body", type=json.loads, default={}, help="JSON object merged into each body."
    )
    parser.add_argument("--timeout", type=float, default=600.0, help="Seconds for one request.")
    parser.add_argument(
        "--repeat", type=int, default=1, help="Runs, each with a seed of its own; medians are shown."
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--server-pid", type=int, help="Report CPU time of this process and its descendants.")
    parser.add_argument("--json", type=Path, help="Write every run and the medians here.")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code 1 when a request failed."""
    options = parse_options(argv)
    target = Target(options.base_url, options.api_key)
    try:
        options.model = options.model or target.first_model()
    except OSError as error:
        print(f"{target.url}/v1/models does not answer: {error}", file=sys.stderr)
        return 1
    asked = {field.name: getattr(options, field.name) for field in dataclasses.fields(Workload)}
    workload = dataclasses.replace(
        WORKLOADS[options.workload], **{name: value for name, value in asked.items() if value is not None}
    )
    runs = [
        run_once(options, target, workload, options.seed + i, f"run {i + 1}/{options.repeat}")
        for i in range(options.repeat)
    ]
    report = {
        "url": target.url,
        "model": options.model,
        "workload": dataclasses.asdict(workload),
        "median": median_of(runs),
        "runs": runs,
    }
    if options.json is not None:
        options.json.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    print(render_table(report))
    return int(any(run["num_errors"] for run in runs))


if __name__ == "__main__":
    sys.exit(main())
