"""What a tick costs two ranks, as the table in docs/performance.md.

`python -m scripts.bench_tick`. Two processes meet as the ranks of a server do, over gloo or in shared memory; rank 0
sends ticks, with a pause between them as long as a short step. Both ranks keep computing in the pause (as they do when
busy) or sleep.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from managers.scheduler.rank_broadcast import RankBroadcast, Tick
from srt.distributed.groups import init_tp_group
from srt.distributed.rank import RankInfo
from srt.layers.native.load import kernels

WARM_UP_TICKS, NUM_TICKS = 100, 1000
TIMEOUT_S = 60.0
DIGEST = bytes(60)  # as long as a real one

Times = list[tuple[float, float]]  # wall and processor seconds of one rank, for each tick


def main() -> None:
    """Print one row for each kind of tick."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pause-ms", type=float, default=2.0)
    pause_s = parser.parse_args().pause_ms / 1000
    print("| tick | µs from rank 0 to rank 1, p50 | p90 | CPU µs of rank 0 | CPU µs of rank 1 |")
    print("|---|---|---|---|---|")
    for name, computes, num_rows in (
        ("busy, no rows", True, 0),
        ("busy, 64 rows", True, 64),
        ("sleeping between ticks, 64 rows", False, 64),
    ):
        for way, in_memory in (("gloo", False), ("shared memory", True)):
            sent, received = measure(num_rows, pause_s, computes=computes, in_memory=in_memory)
            print(f"| {way}, {name} | {describe(sent, received)} |", flush=True)


def measure(num_rows: int, pause_s: float, *, computes: bool, in_memory: bool) -> tuple[Times, Times]:
    """What rank 0 spent and what rank 1 did."""
    with (
        tempfile.TemporaryDirectory() as folder,
        ProcessPoolExecutor(max_workers=2, mp_context=get_context("spawn")) as processes,
    ):
        meeting_place = f"file://{folder}/rendezvous"
        ranks = [
            processes.submit(run_rank, rank, meeting_place, num_rows, pause_s, computes, in_memory)
            for rank in (0, 1)
        ]
        sent, received = (rank.result() for rank in ranks)
        return sent, received


def run_rank(
    rank: int, meeting_place: str, num_rows: int, pause_s: float, computes: bool, in_memory: bool
) -> Times:
    """One rank's process: the times of each tick but the first few. Rank 1's wall time is the tick's way."""
    group = init_tp_group(RankInfo(rank, 2), meeting_place, TIMEOUT_S, kernels() if in_memory else None)
    broadcast = RankBroadcast(group)
    rows = [number for request_id in range(num_rows) for number in (100_000 + request_id, 1)]
    times: Times = []
    for number in range(WARM_UP_TICKS + NUM_TICKS):
        wait(pause_s if rank == 0 else pause_s / 2, computes=computes)
        cpu, start = time.process_time(), time.monotonic()
        if rank == 0:
            broadcast.send(Tick(number=number, clock=start, messages=[], digest=DIGEST, rows=rows))
        else:
            start = broadcast.receive().clock  # the same clock in all processes of a machine
        times.append((time.monotonic() - start, time.process_time() - cpu))
    group.close()
    return times[WARM_UP_TICKS:]


def wait(pause_s: float, *, computes: bool) -> None:
    """Between two ticks."""
    if not computes:
        time.sleep(pause_s)
        return
    end = time.monotonic() + pause_s
    while time.monotonic() < end:
        pass


def describe(sent: Times, received: Times) -> str:
    """The cells of one row."""
    ways = sorted(wall * 1e6 for wall, _ in received)
    figures = [ways[len(ways) // 2], ways[len(ways) * 9 // 10], cpu_us(sent), cpu_us(received)]
    return " | ".join(f"{figure:.0f}" for figure in figures)


def cpu_us(times: Sequence[tuple[float, float]]) -> float:
    """Median over the ticks."""
    return statistics.median(cpu for _, cpu in times) * 1e6


if __name__ == "__main__":
    main()
