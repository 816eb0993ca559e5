"""Servers side by side: one after another is started, loaded in the same way, and stopped; a table, JSON, and bars.

    .venv/bin/python scripts/bench_against.py servers.yaml --json results.json --plot docs/whole_server.svg

The file lists servers, the one first that the others are compared with:

    - name: Lockstep
      start: .venv/bin/python -m launch_server --port {port}
      workloads: [W1, W2, W3]
    - name: Lockstep           # the same name again: another model, for other workloads
      start: .venv/bin/python -m launch_server --port {port} --model-path /models/tiny
      workloads: [W4-64, W4-128, W4-256]
    - name: another
      start: another-server --port {port}
      env: {ITS_THREADS: "2"}
      keeps_alive: false       # a connection for each request, where a server wants that
      workloads: [W1, W2]

W1: one stream, 128 tokens in, 128 out. W2: 32 streams, 256 in, 128 out. W3: 16 streams, 8 groups that share 1,000
tokens. W4-N: N chats of 256 tokens at once, for a model that costs nothing. Every run of a server has a seed of its
own, so that no prefix cache helps across runs; all servers get the same prompts. Medians of the runs are shown.

A server that fails has a row that says so, and the others go on. `--json` is written after every run. Ctrl-C or SIGTERM
ends the running server, too. Measure on a quiet machine.
"""

import argparse
import dataclasses
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import psutil

import bench_serving
from bar_plot import BarPlot
from bench_client import Target
from bench_figures import median_of
from bench_server import Failed, limited, running_server
from bench_serving import WORKLOADS, Workload

W4_STREAMS = (64, 128, 256)
NAMED = {
    "W1": WORKLOADS["single"],
    "W2": WORKLOADS["throughput"],
    "W3": WORKLOADS["prefix"],
    **{
        f"W4-{streams}": dataclasses.replace(
            WORKLOADS["plumbing"], concurrency=streams, num_requests=2 * streams
        )
        for streams in W4_STREAMS
    },
}


class Server(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """One entry of the file."""

    name: str
    start: str  # a command line; {port} stands for a free port
    workloads: list[str] = msgspec.field(default_factory=lambda: list(NAMED))
    env: dict[str, str] = {}
    keeps_alive: bool = True
    health: str = "/health"
    start_timeout_s: float = 300.0


def measure(options: argparse.Namespace, server: Server, name: str, url: str, pid: int) -> Iterator[Any]:
    """The runs of one workload, until there are enough or they took long enough."""
    flags = ["--base-url", url, "--server-pid", str(pid), "--timeout", str(options.run_timeout)]
    asked = bench_serving.parse_options(flags)
    target = Target(url, None, keeps_alive=server.keeps_alive)
    asked.model = target.first_model()
    workload = NAMED[name]
    few = dataclasses.replace(workload, num_requests=min(workload.concurrency, 16), output_len=8)
    workload = scaled(workload, options.size)
    with limited(pid, options.run_timeout):
        bench_serving.run_once(asked, target, few, 0, f"{server.name} {name} warm-up")
    spent_s = 0.0
    for repeat in range(options.repeats):
        if repeat and spent_s >= options.enough_s:
            return
        label = f"{server.name} {name} {repeat + 1}/{options.repeats}"
        with limited(pid, options.run_timeout):
            run = bench_serving.run_once(asked, target, workload, options.seed + repeat, label)
        spent_s += run["duration_s"]
        yield run
        if run["num_errors"]:
            raise Failed(
                f"{run['num_errors']} of {run['num_requests']} requests failed: {run['first_error']}"
            )


def scaled(workload: Workload, size: float) -> Workload:
    """With so many times the requests, but as many at once, and a whole number in each group."""
    unit = max(workload.num_groups, 1)
    wanted = max(round(workload.num_requests * size / unit), 1) * unit
    return dataclasses.replace(workload, num_requests=max(wanted, workload.concurrency))


def measure_server(
    options: argparse.Namespace, server: Server, report: dict[str, Any], save: Callable[[], None]
) -> None:
    """Fills the report, and saves it after every run."""
    wanted = [name for name in server.workloads if name in options.workloads]
    found = {"runs": []} if not wanted else report["workloads"].setdefault(wanted[0], {"runs": []})
    try:
        if wanted:
            log = options.logs / f"{server.name.replace('/', '-')}.log"
            with running_server(
                server.start, log, env=server.env, health=server.health, timeout_s=server.start_timeout_s
            ) as (url, pid, ready_s):
                report["ready_s"] = ready_s
                for name in wanted:
                    found = report["workloads"].setdefault(name, {"runs": []})
                    for run in measure(options, server, name, url, pid):
                        found["runs"].append(run)
                        save()
    except (Failed, OSError, LookupError, ValueError, psutil.Error) as error:
        found["error"] = str(error) or type(error).__name__
        save()


def rows(reports: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """One for each workload and server, workload by workload; `ratio` is to the first server's tokens/s."""
    for name in NAMED:
        first = None
        for report in reports:
            if name not in report["workloads"]:
                continue
            good = [run for run in report["workloads"][name]["runs"] if not run["num_errors"]]
            row: dict[str, Any] = {"workload": name, "server": report["name"], "num_runs": len(good)}
            row["remark"] = report["workloads"][name].get("error", "")
            if good:
                median = median_of(good)
                cpu = dict(median["cpu_us_per_output_token"])
                own = cpu.pop("this client", 0.0)
                speed = median["output_tokens_per_s"]
                first = first or (speed if report["name"] == reports[0]["name"] else None)
                row |= {
                    "tokens_per_s": speed,
                    "ratio": speed / first if first else None,
                    "ttft_ms": median["ttft_ms"].get("p50"),
                    "tpot_ms": median["tpot_ms"].get("p50"),
                    "server_us": sum(cpu.values()),
                    "client_us": own,
                }
            yield row


def render(table: Sequence[dict[str, Any]]) -> str:
    """For people, in Markdown."""

    def cell(row: dict[str, Any], name: str, shape: str) -> str:
        return shape.format(row[name]) if row.get(name) is not None else "–"

    lines = [
        "| workload | server | tokens/s | of the first's | TTFT p50, ms | TPOT p50, ms "
        "| server's processor time, µs a token | the client's | runs | |",
        "|---|---|--:|--:|--:|--:|--:|--:|--:|---|",
    ]
    for row in table:
        cells = [row["workload"], row["server"], cell(row, "tokens_per_s", "{:,.1f}")]
        cells += [
            cell(row, "ratio", "{:.2f}"),
            cell(row, "ttft_ms", "{:,.0f}"),
            cell(row, "tpot_ms", "{:,.1f}"),
        ]
        cells += [cell(row, "server_us", "{:,.1f}"), cell(row, "client_us", "{:,.1f}")]
        cells += [str(row["num_runs"]), " ".join(row["remark"].replace("|", "/").split())[:160]]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def plot(table: Sequence[dict[str, Any]]) -> str:
    """Tokens/s as bars, by workload."""
    groups: dict[str, dict[str, float]] = {}
    for row in table:
        if "tokens_per_s" in row:
            groups.setdefault(row["workload"], {})[row["server"]] = row["tokens_per_s"]
    return BarPlot(title="Tokens a second, by workload", groups=groups).svg()


def parse_options(argv: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("servers", type=Path, help="A list of servers, in YAML or JSON.")
    parser.add_argument("--workloads", type=lambda text: text.split(","), default=list(NAMED))
    parser.add_argument("--repeats", type=int, default=3, help="Runs of each workload.")
    parser.add_argument(
        "--enough-s", type=float, default=60.0, help="No more runs once they took so long together."
    )
    parser.add_argument("--size", type=float, default=1.0, help="Times the number of requests.")
    parser.add_argument(
        "--run-timeout", type=float, default=240.0, help="Seconds after which a run counts as hung."
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--logs", type=Path, default=Path(), help="Folder for what the servers say.")
    parser.add_argument("--json", type=Path, help="Write all figures here, again after every run.")
    parser.add_argument("--plot", type=Path, help="Draw tokens/s here, as SVG.")
    options = parser.parse_args(argv)
    if unknown := set(options.workloads) - set(NAMED):
        parser.error(f"there is no workload {', '.join(sorted(unknown))}; there are {', '.join(NAMED)}")
    return options


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code 1 when a server failed."""
    options = parse_options(argv)
    servers = msgspec.yaml.decode(options.servers.read_bytes(), type=list[Server])
    unknown = {name for server in servers for name in server.workloads} - set(NAMED)
    if unknown:
        raise SystemExit(
            f"{options.servers} names workloads that there are not: {', '.join(sorted(unknown))}"
        )
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    options.logs.mkdir(parents=True, exist_ok=True)
    reports: list[dict[str, Any]] = []
    try:
        for server in servers:
            reports.append({"name": server.name, "start": server.start, "workloads": {}})
            measure_server(options, server, reports[-1], lambda: _write(options, reports))
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
    table = list(rows(reports))
    print(render(table))
    return int(not table or any(row["remark"] for row in table))


def _write(options: argparse.Namespace, reports: Sequence[dict[str, Any]]) -> None:
    table = list(rows(reports))
    if options.json is not None:
        known = {"table": table, "cores": os.cpu_count(), "servers": reports}
        options.json.write_text(json.dumps(known, indent=2) + "\n", encoding="utf-8")
    if options.plot is not None:
        options.plot.write_text(plot(table), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
