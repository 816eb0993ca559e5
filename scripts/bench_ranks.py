"""What ranks of one model cost each other on a CPU, in shared memory and over gloo: tables in docs/performance.md.

`python -m scripts.bench_ranks`. As many processes as ranks, each with one compute thread, all with both ways to meet,
in turns; what rank 0 sees. Processor time counts on a busy machine, and so do the best wall times.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from typing import Any

import torch

from scripts.bench_cpu_steps import NUM_SLOTS, STEPS
from srt.configs.checkpoint import find_model
from srt.distributed.collectives import TpGroup
from srt.distributed.groups import init_tp_group
from srt.distributed.rank import RankInfo
from srt.layers.native.load import kernels
from tests.fakes.real_runner import load_runner

ROUNDS = 7
TIMEOUT_S = 120.0
SUMS = tuple((num_rows, dtype) for num_rows in (1, 32, 256) for dtype in (torch.float32, torch.bfloat16))
HIDDEN_SIZE = 576
NATIVE: dict[str, Any] = {
    "dtype": "bfloat16",
    "attention_backend": "native",
    "layers": "native",
    "quantization": "stored",
}

Work = Callable[[dict[str, TpGroup]], None]


@dataclass(frozen=True)
class Cost:
    """Of one call, in seconds."""

    cpu: float  # the median of the rounds
    wall: float  # the best


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=2, help="number of ranks")
    parser.add_argument("--sums-only", action="store_true", help="no steps of the default model")
    args = parser.parse_args()
    print(f"{args.size} ranks of one thread each, {kernels().instructions}\n")
    print("| | gloo, CPU µs of a rank | at best, µs | ours, CPU µs | at best, µs |")
    print("|---|---|---|---|---|", flush=True)
    works: list[Work] = [measure_sums] if args.sums_only else [measure_sums, measure_steps]
    with (
        tempfile.TemporaryDirectory() as folder,
        ProcessPoolExecutor(args.size, mp_context=get_context("spawn")) as processes,
    ):
        ranks = [
            processes.submit(run_rank, RankInfo(rank, args.size), f"file://{folder}/meet", works)
            for rank in range(args.size)
        ]
        for rank in ranks:
            rank.result()


def run_rank(rank: RankInfo, place: str, works: Sequence[Work]) -> None:
    """One rank's process."""
    torch.set_num_threads(1)
    groups = {
        "gloo": init_tp_group(rank, place, TIMEOUT_S),
        "ours": init_tp_group(rank, place, TIMEOUT_S, kernels()),
    }
    for work in works:
        work(groups)
    for group in groups.values():
        group.close()


def measure_sums(groups: dict[str, TpGroup]) -> None:
    """Adding up rows of a hidden size."""
    for num_rows, dtype in SUMS:
        tensor = torch.zeros(num_rows, HIDDEN_SIZE, dtype=dtype)
        calls = {name: partial(group.all_reduce, tensor) for name, group in groups.items()}
        costs = in_turns(calls, 200)
        tell(groups, f"sum of {num_rows} × {HIDDEN_SIZE}, {str(dtype).removeprefix('torch.')}", costs)


def measure_steps(groups: dict[str, TpGroup]) -> None:
    """Steps of the default model."""
    checkpoint = find_model(None)
    runners = {
        name: load_runner(checkpoint, group=group, max_total_tokens=NUM_SLOTS, **NATIVE)
        for name, group in groups.items()
    }
    for step in STEPS:
        batch = step.batch()
        calls = {name: partial(runner.forward, batch) for name, runner in runners.items()}
        tell(groups, step.name, in_turns(calls, 5))


def in_turns(calls: Mapping[str, Callable[[], object]], num_calls: int) -> dict[str, Cost]:
    """Of each, one after the other in every round."""
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in calls}
    for _ in range(ROUNDS):
        for name, call in calls.items():
            cpu, wall = time.process_time(), time.perf_counter()
            for _ in range(num_calls):
                call()
            found[name].append(
                ((time.process_time() - cpu) / num_calls, (time.perf_counter() - wall) / num_calls)
            )
    return {
        name: Cost(statistics.median(cpu for cpu, _ in costs), min(wall for _, wall in costs))
        for name, costs in found.items()
    }


def tell(groups: dict[str, TpGroup], name: str, costs: dict[str, Cost]) -> None:
    """One row, by rank 0."""
    if groups["ours"].rank.is_leader:
        cells = " | ".join(f"{cost.cpu * 1e6:.0f} | {cost.wall * 1e6:.0f}" for cost in costs.values())
        print(f"| {name} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
