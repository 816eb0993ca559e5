"""Cost of the prefix cache's operations by size and eviction policy, as the table in mem_cache/README.md.

`python -m scripts.bench_prefix_cache [--leaves N …]`. Every prompt is 512 shared tokens and 32 of its own.
"""

import argparse
import random
import time
from collections.abc import Callable, Iterable
from typing import TypeVar

import numpy as np

from mem_cache.books import take_stock
from mem_cache.build import KVMemory, build_kv_memory
from mem_cache.eviction_policy import EVICTION_POLICIES
from mem_cache.prefix_cache import PrefixMatch, TokenIds
from mem_cache.slot_history import SlotHistory

Item = TypeVar("Item")

NUM_SHARED, NUM_OWN = 512, 32
NUM_OPERATIONS = 2000
OPERATIONS = ("match", "lock, count, unlock", "insert", "evict", "evict, all used since")


def main() -> None:
    """Print one row for each size and policy."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--leaves", type=int, nargs="+", default=[100, 2000, 20_000])
    print("microseconds | " + " | ".join(OPERATIONS) + " | check when idle, ms")
    for num_leaves in parser.parse_args().leaves:
        for policy in EVICTION_POLICIES:
            costs = measure(policy, num_leaves)
            print(f"{num_leaves} leaves, {policy} | " + " | ".join(f"{cost:.1f}" for cost in costs))
    history, slots = SlotHistory(1), np.arange(1, NUM_OWN + 1, dtype=np.int32)
    cost = time_each(lambda _: history.note("taken", (1,), slots), range(NUM_OPERATIONS))
    print(f"an event in the slots' history | {cost:.2f}")


def measure(policy: str, num_leaves: int) -> list[float]:
    """Microseconds of each of `OPERATIONS`, and milliseconds of what an idle server does to check its books."""
    memory = build_kv_memory(
        capacity=NUM_SHARED + NUM_OWN * (num_leaves + NUM_OPERATIONS),
        page_size=1,
        use_radix_cache=True,
        num_rows=1,
        context_length=1,
        eviction_policy=policy,
    )
    rng = random.Random(0)
    prompts = [prompt(number) for number in range(num_leaves + NUM_OPERATIONS)]
    for ids in prompts[:num_leaves]:
        insert(memory, ids)
    used = [prompts[rng.randrange(num_leaves)] for _ in range(NUM_OPERATIONS)]
    matching = time_each(memory.cache.match, used)
    holding = time_each(lambda match: hold(memory, match), [memory.cache.match(ids) for ids in used])
    inserting = time_each(lambda ids: insert(memory, ids), prompts[num_leaves:])
    start = time.process_time()
    assert take_stock(memory).balances
    checking = (time.process_time() - start) * 1e3
    num_evictions = min(NUM_OPERATIONS, num_leaves // 2)
    evicting = time_each(memory.cache.evict, [NUM_OWN] * num_evictions)
    for ids in prompts:
        memory.cache.match(ids)
    evicting_used = time_each(memory.cache.evict, [NUM_OWN] * num_evictions)
    return [matching, holding, inserting, evicting, evicting_used, checking]


def prompt(number: int) -> TokenIds:
    """Differs from the others' right behind the shared part."""
    own = np.full(NUM_OWN, number, np.int32)
    return np.concatenate([np.zeros(NUM_SHARED, np.int32), own])


def insert(memory: KVMemory, ids: TokenIds) -> None:
    """As a request does that found the shared part."""
    match = memory.cache.match(ids)
    slots = memory.allocator.extend(0, 0, len(ids) - match.num_tokens)
    assert slots is not None, "the benchmark's memory is too small"
    memory.cache.insert(ids, np.concatenate([match.slots, slots]), match.num_tokens)


def hold(memory: KVMemory, match: PrefixMatch) -> None:
    """As a request does from its admission to its end."""
    memory.cache.lock(match.node)
    memory.cache.count_use(match.node, num_tokens=match.num_tokens, num_counted=0, priority=0)
    memory.cache.unlock(match.node)


def time_each(operation: Callable[[Item], object], items: Iterable[Item]) -> float:
    """Microseconds of processor time of one call, on average."""
    items = list(items)
    start = time.process_time()
    for item in items:
        operation(item)
    return (time.process_time() - start) / len(items) * 1e6


if __name__ == "__main__":
    main()
