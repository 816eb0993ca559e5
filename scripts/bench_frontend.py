"""How much the processes around the model can carry: a sweep of streams over a server without a model.

    .venv/bin/python scripts/bench_frontend.py --streams 16,64,256,1024 --workers 1,2 --step-ms 20

Starts a server with `--load-format mock` for each number of front processes, lets so many streams run at once, and
prints, in Markdown, a row for each point of the sweep: tokens/s, and what they would be if nothing but the steps took
time (`ideal`); requests a step (`batch`); time to the first token, time per token, tokens per event; processor time per
token of the front (all processes that serve HTTP), the detokenizer, the scheduler, and this client. Where tokens/s
falls behind the ideal is the ceiling; TTFT rises first. With `--plot FILE` curves are drawn as SVG.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.request import urlopen

import uvloop

from bench_client import Target, send_all
from bench_figures import cpu_seconds, summarise
from bench_server import OwnServer, own_server
from bench_serving import Workload, make_bodies
from line_plot import LinePlot

# A step has room for that many: that prompts come in small portions is no limit of the front's.
PREFILL_TOKENS = 16_384
WARM_UP = Workload("completions", 4, 8, 32, 16)
# As docs/performance.md shows them: times in ms, processor time in us a token.
COLUMNS = {
    "front processes": "{workers:.0f}",
    "streams": "{streams:,.0f}",
    "tokens/s": "{tokens/s:,.0f}",
    "ideal": "{ideal:,.0f}",
    "batch": "{batch:,.1f}",
    "TTFT p50, p99": "{TTFT p50:,.0f}, {TTFT p99:,.0f}",
    "TPOT p50, p99": "{TPOT p50:.1f}, {TPOT p99:.1f}",
    "tokens an event": "{tok/event:.2f}",
    "front": "{front us:.1f}",
    "detokenizer": "{detok us:.1f}",
    "scheduler": "{sched us:.1f}",
    "client": "{client us:.1f}",
}
ROLES = ("front", "detok", "sched")


def mock_flags(options: argparse.Namespace, num_workers: int) -> list[str]:
    """What the server is started with."""
    return [
        *("--load-format", "mock", "--mock-step-ms", str(options.step_ms), "--log-level", "warning"),
        *("--tokenizer-worker-num", str(num_workers)),
        *("--max-running-requests", str(max(options.streams))),
        *("--chunked-prefill-size", str(PREFILL_TOKENS)),
        *options.server_flag,
    ]


def num_turns(server: OwnServer) -> int:
    """Steps of the scheduler so far."""
    with urlopen(f"{server.url}/server_info", timeout=30) as response:
        return int(json.load(response)["internal_states"][0]["turn"])


def measure(
    options: argparse.Namespace, server: OwnServer, num_workers: int, num_streams: int
) -> dict[str, float]:
    """One point of the sweep."""
    num_requests = num_streams * options.requests_per_stream
    workload = Workload(options.api, num_streams, num_requests, options.input_len, options.output_len)
    target = Target(server.url, None)
    requests = [target.encode(options.api, body) for body in make_bodies(options, workload, num_streams)]
    turns, cpu, own_cpu = num_turns(server), cpu_seconds(server.pid), time.process_time()
    started = time.perf_counter()
    answers = uvloop.run(send_all(target, requests, num_streams, options.timeout, lambda answer: None))
    duration_s = time.perf_counter() - started
    own_cpu = time.process_time() - own_cpu
    used = {name: after - cpu.get(name, 0.0) for name, after in cpu_seconds(server.pid).items()}
    turns = num_turns(server) - turns
    run = summarise(answers, duration_s, {})
    num_tokens = max(run["output_tokens"], 1)
    row = {
        "workers": num_workers,
        "streams": num_streams,
        "tokens/s": run["output_tokens_per_s"],
        "ideal": 1000 * num_streams / options.step_ms if options.step_ms else float("nan"),
        "batch": num_tokens / max(turns, 1),
        "TTFT p50": run["ttft_ms"].get("p50", float("nan")),
        "TTFT p99": run["ttft_ms"].get("p99", float("nan")),
        "TPOT p50": run["tpot_ms"].get("p50", float("nan")),
        "TPOT p99": run["tpot_ms"].get("p99", float("nan")),
        "tok/event": run["tokens_per_event"] or float("nan"),
        "client us": 1e6 * own_cpu / num_tokens,
        "errors": run["num_errors"],
    }
    for role in ROLES:
        seconds = sum(spent for name, spent in used.items() if role_of(name) == role)
        row[f"{role} us"] = 1e6 * seconds / num_tokens
    if run["first_error"]:
        print(f"first error at {num_streams} streams: {run['first_error']}", file=sys.stderr)
    return row


def role_of(title: str) -> str:
    """Which column a process of the server belongs to."""
    if "scheduler" in title:
        return "sched"
    if "detokenizer" in title:
        return "detok"
    return "front" if "launch_server" in title or "tokenizer_worker" in title else "other"


def render_rows(rows: Sequence[Mapping[str, float]]) -> str:
    """The table, in Markdown."""
    cells = [list(COLUMNS), ["--:"] * len(COLUMNS)]
    cells += [[shape.format_map(row) for shape in COLUMNS.values()] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in cells)


def plots(rows: Sequence[dict[str, float]]) -> Mapping[str, LinePlot]:
    """Over the number of streams, a curve for each number of front processes; by the end of a file's name."""
    drawn = {
        "rate": ("tokens/s", "Tokens a second"),
        "ttft": ("TTFT p50", "Time to the first token, p50, ms"),
        "merged": ("tok/event", "Tokens an event"),
    }
    by_workers: dict[str, list[dict[str, float]]] = {}
    for row in rows:
        name = f"{row['workers']:.0f} front process{'es' if row['workers'] > 1 else ''}"
        by_workers.setdefault(name, []).append(row)
    return {
        ending: LinePlot(
            title=title,
            x_label="streams",
            y_label="",
            curves={name: [(row["streams"], row[column]) for row in own] for name, own in by_workers.items()},
            log_x=True,
        )
        for ending, (column, title) in drawn.items()
    }


def _numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def parse_options(argv: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--streams", type=_numbers, default=[16, 64, 256, 1024], help="At once, for each row."
    )
    parser.add_argument("--workers", type=_numbers, default=[1], help="Processes that serve HTTP.")
    parser.add_argument("--step-ms", type=float, default=20.0)
    parser.add_argument("--api", choices=("completions", "chat"), default="chat")
    parser.add_argument("--input-len", type=int, default=32)
    parser.add_argument("--output-len", type=int, default=128)
    parser.add_argument("--requests-per-stream", type=int, default=2, help="One behind the other.")
    parser.add_argument("--timeout", type=float, default=300.0, help="Seconds for one request.")
    parser.add_argument(
        "--server-flag", action="append", default=[], help="Passed on, as --server-flag=--page-size=16."
    )
    parser.add_argument("--json", type=Path, help="Write the rows here.")
    parser.add_argument(
        "--plot", type=Path, help="Draw the curves: X.svg means X-rate.svg, X-ttft.svg and X-merged.svg."
    )
    parser.set_defaults(model="mock", vocab_size=32000, no_ignore_eos=False, extra_body={})
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code 1 when a request failed."""
    options = parse_options(argv)
    rows = []
    for num_workers in options.workers:
        with own_server(mock_flags(options, num_workers)) as server:
            target = Target(server.url, None)
            requests = [target.encode(WARM_UP.api, body) for body in make_bodies(options, WARM_UP, seed=0)]
            uvloop.run(send_all(target, requests, WARM_UP.concurrency, 60.0, lambda answer: None))
            for num_streams in options.streams:
                rows.append(measure(options, server, num_workers, num_streams))
                print(
                    f"{num_workers} workers, {num_streams} streams: {rows[-1]['tokens/s']:,.0f} tokens/s",
                    file=sys.stderr,
                )
    print(
        f"a step takes {options.step_ms:g} ms; {options.api}, {options.output_len} tokens an answer; "
        f"{os.cpu_count()} cores"
    )
    print(render_rows(rows))
    if options.json is not None:
        options.json.write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")
    if options.plot is not None:
        for ending, drawn in plots(rows).items():
            options.plot.with_name(f"{options.plot.stem}-{ending}.svg").write_text(
                drawn.svg(), encoding="utf-8"
            )
    return int(any(row["errors"] for row in rows))


if __name__ == "__main__":
    sys.exit(main())
