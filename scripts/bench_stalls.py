"""How long the event loop is held up, and what newcomers wait, while long prompts arrive among many streams.

    .venv/bin/python scripts/bench_stalls.py --streams 256 --kilobytes 100

Starts a server without a model (`--load-format mock`), lets so many streams run, and then sends chats of so many
kilobytes and, beside them, short ones. Shown is the server's own figure of how late its loop woke up (asked every
20 ms), how often the loop's thread had to wait for a core meanwhile, how many pieces of streams were joined with
others, and the time to the one token of each short chat. Prompts that are too long for the model are tokenised and
refused, which is as much work for the front.
"""

import argparse
import asyncio
import random
import re
import string
import sys
import time
from pathlib import Path
from urllib.request import urlopen

import uvloop

from bench_client import Target
from bench_figures import percentiles
from bench_server import OwnServer, own_server

_SAMPLE = re.compile(r"^(?:lockstep_|sglang:)([a-z_]+)\{(.*)\} (\S+)$", re.MULTILINE)
SHORT_PER_S = 5.0
STREAM_TOKENS = 4000


class Figures:
    """What the server has counted so far, and how long its loop's thread has run and waited for a core."""

    def __init__(self, server: OwnServer) -> None:
        with urlopen(f"{server.url}/metrics", timeout=60) as response:
            samples = _SAMPLE.findall(response.read().decode())
        self.late: dict[float, int] = {}
        self.joined = 0
        for name, labels, value in samples:
            if name == "event_loop_lag_seconds_bucket":
                bound = float(labels.partition('le="')[2].partition('"')[0])
                self.late[bound] = self.late.get(bound, 0) + int(float(value))
            elif name in ("coalesced_chunks_total", "detokenizer_coalesced_chunks_total"):
                self.joined += int(float(value))
        run, waited, _ = Path(f"/proc/{server.pid}/schedstat").read_text().split()
        self.run_s, self.waited_s, self.at = int(run) / 1e9, int(waited) / 1e9, time.monotonic()


def chat(num_chars: int, seed: int, **fields: object) -> dict[str, object]:
    """Of words that were never there before, so nothing is found in a cache."""
    rng = random.Random(seed)
    words = []
    while num_chars > 0:
        word = "".join(rng.choices(string.ascii_lowercase, k=rng.randrange(2, 10)))
        words.append(word)
        num_chars -= len(word) + 1
    return {"model": "m", "messages": [{"role": "user", "content": " ".join(words)}], **fields}


async def ask(target: Target, body: dict[str, object]) -> float:
    """Seconds until all of the answer is there."""
    request, begun = target.encode("chat", body), time.monotonic()
    reader, writer = await asyncio.open_connection(target.host, target.port)
    writer.write(request)
    while await reader.read(1 << 20):
        pass
    writer.close()
    return time.monotonic() - begun


async def keep_asking(target: Target, num_chars: int, per_s: float, seconds: float, seed: int) -> list[float]:
    """So many a second, whether or not those before have been answered."""
    asked = []
    for number in range(int(per_s * seconds)):
        asked.append(asyncio.create_task(ask(target, chat(num_chars, seed + number, max_tokens=1))))
        await asyncio.sleep(1 / per_s)
    return await asyncio.gather(*asked)


async def load(server: OwnServer, options: argparse.Namespace) -> None:
    """The streams, then the figures of a while without long prompts and of one with them."""
    target = Target(server.url, None, keeps_alive=False)
    body = chat(20, 0, max_tokens=STREAM_TOKENS, stream=True, ignore_eos=True)
    streams = [asyncio.create_task(ask(target, body)) for _ in range(options.streams)]
    await asyncio.sleep(options.warm_up)
    for num_chars in (0, options.kilobytes * 1000):
        before = await asyncio.to_thread(Figures, server)
        short, _ = await asyncio.gather(
            keep_asking(target, 20, SHORT_PER_S, options.seconds, 10_000),
            keep_asking(target, num_chars, options.rate if num_chars else 0, options.seconds, 20_000),
        )
        show(num_chars, before, await asyncio.to_thread(Figures, server), short)
    for stream in streams:
        stream.cancel()


def show(num_chars: int, before: Figures, after: Figures, short: list[float]) -> None:
    """One line for each figure."""
    late = {bound: count - before.late.get(bound, 0) for bound, count in after.late.items()}
    total = max(late.values(), default=0)
    shares = [
        f"{100 * late[bound] / max(total, 1):.2f} % to {1000 * bound:g} ms"
        for bound in (0.005, 0.01, 0.02, 0.05)
    ]
    seconds = after.at - before.at
    waits = percentiles(short)
    print(f"with long prompts, {num_chars // 1000} kB each:" if num_chars else "without long prompts:")
    print(f"  woke up late: {', '.join(shares)}; later than 50 ms {total - late[0.05]} of {total} times")
    print(
        f"  its thread ran {100 * (after.run_s - before.run_s) / seconds:.0f} % of the time,"
        f" and waited for a core {100 * (after.waited_s - before.waited_s) / seconds:.0f} %"
    )
    print(f"  pieces joined with others: {after.joined - before.joined}")
    print(f"  short chats: p50 {waits['p50']:.0f}, p99 {waits['p99']:.0f}, max {1000 * max(short):.0f} ms")


def main() -> int:
    """Start, load, show."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--streams", type=int, default=256)
    parser.add_argument("--kilobytes", type=int, default=100, help="Of each long prompt.")
    parser.add_argument("--rate", type=float, default=5.0, help="Long prompts a second.")
    parser.add_argument("--seconds", type=float, default=8.0, help="With and without them.")
    parser.add_argument("--warm-up", type=float, default=4.0)
    parser.add_argument("--step-ms", type=float, default=20.0)
    options = parser.parse_args()
    flags = [
        *("--load-format", "mock", "--mock-step-ms", str(options.step_ms), "--log-level", "error"),
        *("--enable-metrics", "--max-running-requests", str(options.streams + 64)),
        *("--max-total-tokens", str((options.streams + 64) * (STREAM_TOKENS + 200))),
    ]
    with own_server(flags) as server:
        uvloop.run(load(server, options))
    return 0


if __name__ == "__main__":
    sys.exit(main())
