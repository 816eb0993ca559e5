"""What the native kernels cost on this CPU, beside torch's and the memory's bandwidth: tables in docs/performance.md.

`python -m scripts.bench_cpu`. Products and attention by themselves, ours and torch's in turns. Times are the best of
many, for other programs only ever add to them; on a busy machine, `--cpu-time` counts the processor time of one thread
instead. `bench_cpu_steps.py` has whole steps of a model.
"""

import argparse
import time
from collections.abc import Callable, Mapping, Sequence

import torch

from mem_cache.kv_pool import KVPool
from srt.layers.attention import native, torch_native
from srt.layers.attention.backend import AttentionShape
from srt.layers.native.linear import PackedMatrix, Weight
from srt.layers.native.load import kernels
from srt.layers.quantization.unquantized import prepare_plain
from tests.fakes.forward_batches import Slots, Tokens, extend
from tests.fakes.random_weights import random_weight

ROUNDS = 12
NUM_SLOTS = 16_000
MANY_BYTES = 80 * 2**20  # more than any cache here holds
LINEARS = ((960, 576), (3072, 576), (576, 1536), (49152, 576))
NUM_ROWS = (1, 4, 8, 32, 256)
ATTENTION = (("decode", 1, 200, 1), ("decode", 32, 320, 1), ("prefill", 1, 0, 512), ("extend", 1, 1000, 64))

Backend = torch_native.TorchNativeBackend | native.NativeBackend
Clock = Callable[[], float]
Calls = Mapping[str, Callable[[], object]]


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--cpu-time", action="store_true", help="processor time of one thread")
    args = parser.parse_args()
    torch.set_num_threads(1 if args.cpu_time else args.threads)
    clock = time.process_time if args.cpu_time else time.perf_counter
    print(f"{torch.get_num_threads()} threads, {kernels().instructions}")
    bandwidth = read_bandwidth(clock)
    print(f"memory: {bandwidth / 1e9:.1f} GB/s read")
    print(f"products in the nearest cache, one thread: {product_rate(clock) / 1e9:.0f} GFLOP/s\n")
    print_linears(clock)
    print_attention(clock, bandwidth)


def in_turns(calls: Calls, clock: Clock, rounds: int = ROUNDS) -> dict[str, float]:
    """Seconds of each, the best of many, one after the other in every round."""
    best = dict.fromkeys(calls, float("inf"))
    with torch.inference_mode():
        for _ in range(rounds):
            for name, call in calls.items():
                start = clock()
                call()
                best[name] = min(best[name], clock() - start)
    return best


def read_bandwidth(clock: Clock) -> float:
    """Bytes a second: a sum over more than any cache holds."""
    values = torch.ones(64 * 2**20)
    return values.nbytes / in_turns({"sum": lambda: values.sum()}, clock)["sum"]


def product_rate(clock: Clock) -> float:
    """Operations a second, of the instructions that products use here: what a core does at most."""
    count = 1000
    num_operations: int = kernels().repeat_products(count)
    return num_operations / in_turns({"repeat": lambda: kernels().repeat_products(count)}, clock)["repeat"]


def print_linears(clock: Clock) -> None:
    """µs a product, weights not in the caches."""
    print("| µs a product, rows | oneDNN, bfloat16 | ours, bfloat16 | " + " | ".join(FORMATS) + " |")
    print("|---|---|---|" + "---|" * len(FORMATS))
    for num_outputs, num_inputs in LINEARS:
        num_copies = max(MANY_BYTES // (2 * num_outputs * num_inputs), 1)
        copies = [_linears(num_outputs, num_inputs) for _ in range(num_copies)]
        for num_rows in NUM_ROWS:
            inputs = torch.randn(num_rows, num_inputs).bfloat16()
            calls = {way: _each([copy[way] for copy in copies], inputs) for way in copies[0]}
            seconds = in_turns(calls, clock, rounds=5)
            cells = " | ".join(f"{1e6 * value / num_copies:,.0f}" for value in seconds.values())
            print(f"| {num_outputs} × {num_inputs}, {num_rows} | {cells} |", flush=True)
    print()


def _each(
    linears: Sequence[Callable[[torch.Tensor], torch.Tensor]], inputs: torch.Tensor
) -> Callable[[], None]:
    def run() -> None:
        for linear in linears:
            linear(inputs)

    return run


FORMATS = ("Q4_1", "Q8_0", "Q4_K", "Q5_0", "Q6_K")


def _dense(num_outputs: int, num_inputs: int) -> torch.Tensor:
    return torch.randn(num_outputs, num_inputs).bfloat16()


def _linears(num_outputs: int, num_inputs: int) -> dict[str, Callable[[torch.Tensor], torch.Tensor]]:
    """A product in every way."""
    random = torch.Generator().manual_seed(0)

    def native_linear(weight: Weight) -> Callable[[torch.Tensor], torch.Tensor]:
        return PackedMatrix(kernels(), [weight], None).multiply

    ways: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
        "oneDNN": prepare_plain(_dense(num_outputs, num_inputs), None),
        "bfloat16": native_linear(_dense(num_outputs, num_inputs)),
    }
    # Rows of K formats are whole numbers of 256 in files; the kernels do not mind others.
    for name in FORMATS:
        ways[name] = native_linear(random_weight(name, num_outputs, num_inputs, random))
    return ways


def print_attention(clock: Clock, bandwidth: float) -> None:
    """µs a layer, 9 query and 3 key-value heads of 64 values."""
    print("| attention | torch, µs | ours | GB/s of KV | share of the bandwidth | GFLOP/s |")
    print("|---|---|---|---|---|---|")
    for kind, num_rows, num_before, num_new in ATTENTION:
        # As many as a server has at least: large enough for the system to use large pages.
        num_slots = max(num_rows * (num_before + num_new) + 2, NUM_SLOTS)
        num_layers = 12
        pool = KVPool(
            num_layers=num_layers,
            num_slots=num_slots,
            num_kv_heads=3,
            head_dim=64,
            dtype=torch.bfloat16,
            device="cpu",
        )
        for layer in range(num_layers):
            pool.keys(layer).normal_()
            pool.values(layer).normal_()
        slots = Slots(num_slots - 1)
        slots.free_pages.sort(reverse=True)
        sequences = [Tokens() for _ in range(num_rows)]
        for sequence in sequences if num_before else []:
            extend([(sequence, [0] * num_before)], slots)
        batch = extend([(sequence, [0] * num_new) for sequence in sequences], slots)
        vectors = [torch.randn(batch.num_tokens, heads, 64).bfloat16() for heads in (9, 3, 3)]

        def attend(backend: Backend) -> Callable[[], None]:
            def run() -> None:
                prepared = backend.prepare(batch)  # noqa: B023 (runs before the next loop)
                for layer in range(num_layers):  # noqa: B023
                    shape = AttentionShape(
                        layer=layer, num_heads=9, num_kv_heads=3, head_dim=64, window=None, scale=0.125
                    )
                    prepared.attend(shape, *vectors)  # noqa: B023

            return run

        backends: dict[str, Backend] = {
            "torch": torch_native.make_backend(pool),
            "ours": native.make_backend(pool),
        }
        seconds = in_turns({name: attend(backend) for name, backend in backends.items()}, clock)
        torchs, ours = (seconds[name] / num_layers for name in ("torch", "ours"))
        rate = 768 * sum(batch.seq_lens_host) / ours
        pairs = sum(
            new * (length - (new - 1) / 2)
            for new, length in zip(batch.row_lens_host, batch.seq_lens_host, strict=True)
        )
        print(
            f"| {kind}, {num_rows} × {num_before} + {num_new} | {torchs * 1e6:.0f} | {ours * 1e6:.0f} "
            f"| {rate / 1e9:.1f} | {rate / bandwidth:.0%} | {4 * 576 * pairs / ours / 1e9:.0f} |",
            flush=True,
        )
    print()


if __name__ == "__main__":
    main()
