"""How a server's processes share the work of a few connections that stay open, like those of a proxy.

Each connection streams one answer after another. Shown is the processor time of every process of the server meanwhile:

    python -m launch_server --tokenizer-worker-num 2 & python scripts/bench_workers.py --server-pid $!
"""

import argparse
import http.client
import json
import threading
import time
import urllib.parse
from collections.abc import Sequence

import psutil


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


def cpu_seconds(processes: Sequence[psutil.Process]) -> list[float]:
    """User and system time of each so far."""
    return [sum(process.cpu_times()[:2]) for process in processes]


def main() -> None:
    """Work, then say who has done it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--base-url", default="http://127.0.0.1:30000")
    parser.add_argument("--server-pid", type=int, required=True)
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--requests", type=int, default=20, help="Of each connection, one behind the other.")
    parser.add_argument("--tokens", type=int, default=64, help="Of each answer.")
    options = parser.parse_args()
    url = urllib.parse.urlsplit(options.base_url)
    server = psutil.Process(options.server_pid)
    processes = [server, *server.children(recursive=True)]
    work = (url.hostname or "127.0.0.1", url.port or 80, options.requests, options.tokens)
    threads = [threading.Thread(target=stream_answers, args=work) for _ in range(options.connections)]
    before, start = cpu_seconds(processes), time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    used = [after - earlier for earlier, after in zip(before, cpu_seconds(processes), strict=True)]
    num_tokens = options.connections * options.requests * options.tokens
    print(f"{num_tokens:,} tokens over {options.connections} connections in {time.monotonic() - start:.1f} s")
    for process, seconds in zip(processes, used, strict=True):
        print(
            f"{seconds:8.2f} s  {1e6 * seconds / num_tokens:6.1f} us a token  {' '.join(process.cmdline())[:60]}"
        )


if __name__ == "__main__":
    main()
