"""How a server's processes share the work of a few connections that stay open, like those of a proxy.

    .venv/bin/python scripts/bench_workers.py --workers 1,2,4

Starts a server with `--load-format mock` for each number of processes that serve HTTP. Each connection streams one
answer after another. Prints, in Markdown, the processor time of every process meanwhile: seconds, and us a token.
"""

import argparse
import http.client
import json
import sys
import threading
import time
from collections.abc import Mapping, Sequence

from bench_figures import cpu_seconds
from bench_server import OwnServer, own_server

COLUMNS = {"main": "launch_server", "each HTTP process": "tokenizer_worker", "detokenizer": "detokenizer"}


def stream_answers(host: str, port: int, num_requests: int, num_tokens: int) -> None:
    """One connection's work."""
    connection = http.client.HTTPConnection(host, port, timeout=600)
    body = {
        "text": "Once upon a time",
        "stream": True,
        "sampling_params": {"max_new_tokens": num_tokens, "ignore_eos": True, "temperature": 0},
    }
    for _ in range(num_requests):
        headers = {"Content-Type": "application/json"}
        connection.request("POST", "/generate", json.dumps(body), headers)
        response = connection.getresponse()
        if response.status != 200 or not response.read().endswith(b"data: [DONE]\n\n"):
            raise RuntimeError(f"status {response.status}, or an answer that is not whole")
    connection.close()


def measure(server: OwnServer, options: argparse.Namespace) -> dict[str, float]:
    """Seconds of each process, by its title."""
    work = (server.host, server.port, options.requests, options.tokens)
    threads = [threading.Thread(target=stream_answers, args=work) for _ in range(options.connections)]
    before, start = cpu_seconds(server.pid), time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    used = {name: after - before.get(name, 0.0) for name, after in cpu_seconds(server.pid).items()}
    num_tokens = options.connections * options.requests * options.tokens
    say = f"{num_tokens:,} tokens over {options.connections} connections in {time.monotonic() - start:.1f} s"
    print(say, file=sys.stderr)
    return used


def cells(used: Mapping[str, float], num_tokens: int) -> list[str]:
    """One for each of `COLUMNS`."""
    found = []
    for title in COLUMNS.values():
        seconds = sorted((spent for name, spent in used.items() if title in name), reverse=True)
        each = ", ".join(f"{spent:.2f}" for spent in seconds)
        share = ", ".join(f"{1e6 * spent / num_tokens:.0f}" for spent in seconds)
        found.append(f"{each} ({share})" if seconds else "")
    return found


def parse_options(argv: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--workers", type=lambda text: [int(part) for part in text.split(",")], default=[1, 2, 4]
    )
    parser.add_argument("--step-ms", type=float, default=5.0)
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--requests", type=int, default=20, help="Of each connection, one behind the other.")
    parser.add_argument("--tokens", type=int, default=64, help="Of each answer.")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> None:
    """Work, then say who has done it."""
    options = parse_options(argv)
    num_tokens = options.connections * options.requests * options.tokens
    rows = []
    for num_workers in options.workers:
        flags = [
            *("--load-format", "mock", "--mock-step-ms", str(options.step_ms), "--log-level", "warning"),
            *("--tokenizer-worker-num", str(num_workers)),
        ]
        with own_server(flags) as server:
            rows.append([str(num_workers), *cells(measure(server, options), num_tokens)])
    print(f"| `--tokenizer-worker-num` | {' | '.join(COLUMNS)} |\n|--:|{'---|' * len(COLUMNS)}")
    print("\n".join(f"| {' | '.join(row)} |" for row in rows))


if __name__ == "__main__":
    main()
