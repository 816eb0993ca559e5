"""What a step of a model costs on this CPU, by the way to run it, and where it goes: tables in docs/performance.md.

`python -m scripts.bench_cpu_steps`. The same batch on every way, in turns; then the parts of one by themselves. Times
are the best of many; on a busy machine, `--cpu-time` counts the processor time of one thread instead.
"""

import argparse
import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch

from mem_cache.kv_pool import KVPool
from scripts.bench_cpu import read_bandwidth
from srt.configs.checkpoint import find_model
from srt.configs.load import load_model_config
from srt.configs.model_config import ModelConfig
from srt.distributed.collectives import LoneGroup
from srt.distributed.rank import ALONE
from srt.forward_batch import ForwardBatch
from srt.layers.attention import native
from srt.layers.native.linear import PackedMatrix
from srt.layers.native.load import kernels
from srt.model_executor.model_runner import ModelRunner
from srt.models.decoder import attention_shape
from tests.fakes.forward_batches import Slots, Tokens, extend
from tests.fakes.real_runner import make_plan

ROUNDS = 7
NUM_SLOTS = 11_000
WAYS = {
    "plain torch": {"attention_backend": "torch_native", "layers": "torch", "quantization": "none"},
    "our attention": {"attention_backend": "native", "layers": "torch", "quantization": "none"},
    "our layers": {"attention_backend": "native", "layers": "native", "quantization": "none"},
    "quantised": {"attention_backend": "native", "layers": "native", "quantization": "stored"},
}


Clock = Callable[[], float]
Calls = Mapping[str, Callable[[], object]]


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model-path", help="default: the default model")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--cpu-time", action="store_true", help="processor time of one thread")
    args = parser.parse_args()
    if "GOMP_SPINCOUNT" not in os.environ:  # as in the server; read when torch is loaded
        os.execve(sys.executable, sys.orig_argv, {**os.environ, "GOMP_SPINCOUNT": "10000"})
    num_threads = 1 if args.cpu_time else args.threads
    clock = time.process_time if args.cpu_time else time.perf_counter
    model = find_model(args.model_path)
    bench = StepBench(model, num_threads)
    print(f"{model.name}, {num_threads} threads, {kernels().instructions}\n")
    print("| step | " + " | ".join(f"{way}, ms" for way in bench.ways) + " |")
    print("|---|" + "---|" * len(bench.ways))
    lone_seconds: dict[str, float] = {}
    for step in STEPS:
        seconds = in_turns(bench.calls(step), clock)
        lone_seconds = lone_seconds or seconds
        cells = " | ".join(f"{1e3 * value:.1f}" for value in seconds.values())
        print(f"| {step.name} | {cells} |", flush=True)
    print()
    bench.print_least_times(STEPS[0], lone_seconds, read_bandwidth(clock))
    for step in STEPS:
        parts = in_turns(step_parts(bench.config, step), clock)
        print(f"{step.name}: " + ", ".join(f"{name} {1e3 * value:.2f} ms" for name, value in parts.items()))


def in_turns(calls: Calls, clock: Clock) -> dict[str, float]:
    """Seconds of each, the best of many, one after the other in every round."""
    best = dict.fromkeys(calls, float("inf"))
    with torch.inference_mode():
        for _ in range(ROUNDS):
            for name, call in calls.items():
                start = clock()
                call()
                best[name] = min(best[name], clock() - start)
    return best


@dataclass(frozen=True)
class Step:
    """Rows with so many tokens in the cache, and so many new ones. In a group, rows share their first tokens."""

    name: str
    num_rows: int
    num_before: int
    num_new: int
    num_shared: int = 0
    num_groups: int = 1

    def batch(self) -> ForwardBatch:
        """Random tokens in neighbouring slots."""
        slots = Slots(NUM_SLOTS - 1)
        slots.free_pages.sort(reverse=True)
        groups = [Tokens() for _ in range(self.num_groups)]
        if self.num_shared:
            for group in groups:
                extend([(group, [0] * self.num_shared)], slots)
        sequences = [
            Tokens([0] * self.num_shared, groups[row % self.num_groups].slots[:])
            for row in range(self.num_rows)
        ]
        if self.num_before > self.num_shared:
            for sequence in sequences:
                extend([(sequence, [0] * (self.num_before - self.num_shared))], slots)
        ids = torch.randint(0, 1000, (self.num_new,)).tolist()
        return extend([(sequence, ids) for sequence in sequences], slots)


STEPS = (
    Step("decode of 1 with 200", 1, 200, 1),
    Step("decode of 8 with 320", 8, 320, 1),
    Step("decode of 32 with 320", 32, 320, 1),
    Step("decode of 16, each 2 share 1,000 of 1,100", 16, 1100, 1, num_shared=1000, num_groups=8),
    Step("decode of 16, each 8 share 1,000 of 1,100", 16, 1100, 1, num_shared=1000, num_groups=2),
    Step("prefill of 256", 1, 0, 256),
)


class StepBench:
    """One runner a way, all of the same checkpoint."""

    def __init__(self, model: Path, num_threads: int) -> None:
        self._num_threads = num_threads
        self.config = load_model_config(model)
        is_gguf = self.config.checkpoint_format == "gguf"
        self.ways = [way for way in WAYS if is_gguf or way != "quantised"]
        self._runners = {way: self._load(WAYS[way]) for way in self.ways}

    def calls(self, step: Step) -> dict[str, Callable[[], object]]:
        """The step on each runner."""
        batch = step.batch()

        def run(way: str, runner: ModelRunner) -> Callable[[], object]:
            num_threads = 1 if WAYS[way]["layers"] == "native" else self._num_threads  # as ModelRunner has it

            def call() -> None:
                torch.set_num_threads(num_threads)
                runner.forward(batch)

            return call

        return {way: run(way, runner) for way, runner in self._runners.items()}

    def print_least_times(self, step: Step, seconds: Mapping[str, float], bandwidth: float) -> None:
        """Beside what memory takes to give each way's weights and keys and values once.

        A tied embedding is the head; another one is counted, though hardly read.
        """
        for way, runner in self._runners.items():
            stats = runner.stats()
            num_bytes = stats.weight_bytes + step.num_rows * step.num_before * stats.kv_bytes / NUM_SLOTS
            least = num_bytes / bandwidth
            print(
                f"{step.name}, {way}: {num_bytes / 1e6:.0f} MB at {bandwidth / 1e9:.1f} GB/s are "
                f"{1e3 * least:.1f} ms; it takes {seconds[way] / least:.2f} times as long"
            )
        print()

    def _load(self, way: Mapping[str, object]) -> ModelRunner:
        plan = make_plan(
            dtype="bfloat16",
            num_threads=self._num_threads,
            context_length=2048,
            max_total_tokens=NUM_SLOTS,
            mem_fraction_static=0.5,
            **way,
        )
        runner = ModelRunner.load(
            config=self.config, plan=plan, rank=ALONE, group=LoneGroup(), load_format="auto", seed=0
        )
        runner.size_pool()
        fill(runner)
        return runner


def fill(runner: ModelRunner) -> None:
    """Write every slot: memory that was never touched costs nothing to read."""
    slots = Slots(NUM_SLOTS - 1)
    slots.free_pages.sort(reverse=True)
    for _ in range((NUM_SLOTS - 1) // 512):
        runner.forward(extend([(Tokens(), list(range(512)))], slots))


def step_parts(config: ModelConfig, step: Step) -> dict[str, Callable[[], object]]:
    """The large parts of a step on our layers in bfloat16, each for all layers."""
    batch = step.batch()
    head_dim, layers = config.head_dim, range(config.num_layers)
    pool = KVPool(
        num_layers=config.num_layers,
        num_slots=NUM_SLOTS,
        num_kv_heads=config.num_kv_heads,
        head_dim=head_dim,
        dtype=torch.bfloat16,
        device="cpu",
    )
    for layer in layers:
        pool.keys(layer).normal_()
        pool.values(layer).normal_()
    heads = (config.num_heads, config.num_kv_heads, config.num_kv_heads)
    vectors = [torch.randn(batch.num_tokens, number, head_dim).bfloat16() for number in heads]
    backend = native.make_backend(pool)
    shapes = [attention_shape(layer, config, ALONE) for layer in layers]

    def attend() -> None:
        prepared = backend.prepare(batch)
        for shape in shapes:
            prepared.attend(shape, *vectors)

    hidden, features = config.hidden_size, config.intermediate_size
    sizes = {
        "qkv": (sum(heads) * head_dim, hidden),
        "out": (hidden, config.num_heads * head_dim),
        "gate and up": (2 * features, hidden),
        "down": (hidden, features),
    }
    parts: dict[str, Callable[[], object]] = {"attention": attend}
    for name, (num_outputs, num_inputs) in sizes.items():
        linears = [_linear(num_outputs, num_inputs) for _ in layers]
        inputs = torch.randn(batch.num_tokens, num_inputs).bfloat16()
        parts[name] = _multiply_each(linears, inputs)
    head = _linear(config.vocab_size, hidden)
    sampled = torch.randn(batch.num_rows, hidden).bfloat16()
    parts["head"] = lambda: head.multiply(sampled)
    parts["head, greedy"] = lambda: head.multiply_some(sampled, 0)
    return parts


def _linear(num_outputs: int, num_inputs: int) -> PackedMatrix:
    return PackedMatrix(kernels(), [torch.randn(num_outputs, num_inputs).bfloat16()], None)


def _multiply_each(linears: list[PackedMatrix], inputs: torch.Tensor) -> Callable[[], object]:
    return lambda: [linear.multiply(inputs) for linear in linears]


if __name__ == "__main__":
    main()
