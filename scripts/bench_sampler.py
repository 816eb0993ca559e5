"""What it costs to choose the tokens of 64 rows, native kernels beside numpy and torch: tables in docs/performance.md.

`python -m scripts.bench_sampler`. Both see the same logits in turns, copied anew, so out of the nearest caches.
Medians; on a busy machine, `--cpu-time` counts the processor time of one thread instead.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from srt.layers.native.load import kernels
from srt.layers.native.sampling import NativeChooser
from srt.sampling.batch_params import SampleRow
from srt.sampling.params import SamplingParams
from srt.sampling.sampler import Sampler

NUM_ROWS, ROUNDS, SPREAD = 64, 15, 3.0
VOCAB_SIZES = (49_152, 151_936)
CASES: dict[str, dict[str, Any]] = {
    "greedy": {"temperature": 0.0},
    "greedy, grammar": {"temperature": 0.0},
    "temperature 1": {},
    "temperature 0.7, grammar": {"temperature": 0.7},
    "top_p 0.9": {"top_p": 0.9},
    "top_k 50": {"top_k": 50},
    "min_p 0.05": {"min_p": 0.05},
    "temperature 0.7, top_k 50, top_p 0.95": {"temperature": 0.7, "top_k": 50, "top_p": 0.95},
}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--spread", type=float, default=SPREAD, help="standard deviation of the logits")
    parser.add_argument("--cpu-time", action="store_true", help="processor time of one thread")
    args = parser.parse_args()
    torch.set_num_threads(1 if args.cpu_time else args.threads)
    clock = time.process_time if args.cpu_time else time.perf_counter
    print(f"{torch.get_num_threads()} threads, {kernels().instructions}; normal logits × {args.spread}\n")
    print("| ms for 64 rows | vocabulary | numpy and torch | ours |\n|---|---|---|---|")
    for vocab_size in VOCAB_SIZES:
        logits = torch.randn(NUM_ROWS, vocab_size, generator=torch.Generator().manual_seed(0)) * args.spread
        bits = np.random.default_rng(0).integers(-(2**31), 2**31, vocab_size // 32).astype(np.int32)
        for name, settings in CASES.items():
            allowed = bits if "grammar" in name else None
            rows = [
                SampleRow(params=SamplingParams(seed=i, **settings), position=i, allowed=allowed)
                for i in range(NUM_ROWS)
            ]
            ways = [Sampler(vocab_size), Sampler(vocab_size, NativeChooser(kernels()))]
            plain, ours = in_turns(ways, logits, rows, clock)
            print(f"| {name} | {vocab_size:,} | {1e3 * plain:.2f} | {1e3 * ours:.2f} |", flush=True)


def in_turns(
    ways: list[Sampler], logits: torch.Tensor, rows: list[SampleRow], clock: Callable[[], float]
) -> list[float]:
    """Median seconds of each."""
    seconds: list[list[float]] = [[] for _ in ways]
    copy = torch.empty_like(logits)
    for _ in range(ROUNDS):
        for sampler, times in zip(ways, seconds, strict=True):
            copy.copy_(logits)
            start = clock()
            sampler.sample(copy, rows)
            times.append(clock() - start)
    return [statistics.median(times) for times in seconds]


if __name__ == "__main__":
    main()
