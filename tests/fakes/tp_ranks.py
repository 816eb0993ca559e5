"""Real ranks in real processes, in shared memory or over gloo: each serves some checkpoints and saves what it saw."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from srt.distributed.collectives import TpGroup
from srt.distributed.groups import init_tp_group
from srt.distributed.rank import RankInfo
from srt.errors import RankLost
from srt.layers.native.load import kernels
from srt.model_executor.model_runner import ModelRunner
from tests.fakes.forward_batches import Slots, Tokens, extend
from tests.fakes.rank_hosts import RankHosts
from tests.fakes.real_runner import load_runner

LIMIT_S = 120.0
NUM_AT_ONCE = 100
PROMPT = [(5 * i * i + i + 3) % 131 for i in range(23)]


class KeepingReader:
    """A LogitReader that keeps all it reads."""

    def __init__(self, *rows: int) -> None:
        self.rows = torch.tensor(rows)
        self.logits: list[torch.Tensor] = []

    def read(self, logits: torch.Tensor) -> None:
        self.logits.append(logits.float())


def serve(runner: ModelRunner) -> torch.Tensor:
    """Logits of a chunked prefill, and of a batch that mixes two decode rows with another prefill.

    And of some tokens in their midst.
    """
    reader = KeepingReader(1, 2, 5)
    slots, first, second = Slots(200), Tokens(), Tokens()
    logits = [runner.forward(extend([(first, PROMPT[:9])], slots)).logits]
    logits.append(runner.forward(extend([(first, PROMPT[9:]), (second, PROMPT[:2])], slots)).logits)
    rows: list[tuple[Tokens, list[int]]] = [(first, [7]), (second, [8]), (Tokens(), PROMPT[4:11])]
    logits.append(runner.forward(replace(extend(rows, slots), also_reads=reader)).logits)
    return torch.cat(logits + reader.logits)


def run_ranks(
    hosts: RankHosts,
    size: int,
    folder: Path,
    checkpoints: Sequence[Path],
    load_format: str = "auto",
    *,
    in_memory: bool = True,
) -> list[Any]:
    """What each rank saw: `logits` of each checkpoint, pool sizes, and the answers of every collective."""
    arguments = [(rank, size, folder, list(checkpoints), load_format, in_memory) for rank in range(size)]
    assert hosts.run(f"{__name__}:{run_rank.__name__}", arguments) == [0] * size
    return [torch.load(folder / f"{rank}.pt") for rank in range(size)]


def run_rank(
    rank: int, size: int, folder: Path, checkpoints: list[Path], load_format: str, in_memory: bool
) -> None:
    """In a process of its own."""
    torch.set_num_threads(1)
    group = init_tp_group(
        RankInfo(rank, size), f"file://{folder}/meet", LIMIT_S, kernels() if in_memory else None
    )
    seen: dict[str, Any] = {"collectives": _try_collectives(group), "logits": [], "num_tokens": []}
    for checkpoint in checkpoints:
        # Rank 0 could take more tokens; all must settle for the least.
        cap = 1024 - 100 * rank
        runner = load_runner(checkpoint, group=group, load_format=load_format, max_total_tokens=cap)
        seen["num_tokens"].append(runner.stats().num_tokens)
        seen["logits"].append(serve(runner))
    torch.save(seen, folder / f"{rank}.pt")
    group.close()


def _try_collectives(group: TpGroup) -> dict[str, Any]:
    rank = group.rank.rank
    message = torch.tensor([rank, 5 + rank], dtype=torch.uint8)
    group.broadcast_bytes(message)
    return {
        "broadcast": message.tolist(),
        "min": group.all_reduce_min(10 - rank),
        "sum": group.all_reduce(torch.tensor([[1.0, float(rank)]])).tolist(),
        "sum_bf16": group.all_reduce(torch.tensor([0.5], dtype=torch.bfloat16)).tolist(),
        "columns": group.all_gather_columns(torch.tensor([[rank, 10 + rank]])).tolist(),
        "side by side": _broadcast_and_reduce_at_once(group),
    }


def _broadcast_and_reduce_at_once(group: TpGroup) -> list[int]:
    """Two threads, as when a tick is sent while a step is computed; how often each was right."""

    def broadcast(number: int) -> bool:
        message = torch.full((8192,), number if group.rank.is_leader else 0, dtype=torch.uint8)
        group.broadcast_bytes(message)
        return bool((message == number).all())

    def reduce(number: int) -> bool:
        tensor = torch.full((number * 500, 3), float(number))
        return bool((group.all_reduce(tensor) == number * group.rank.size).all())

    numbers = range(1, NUM_AT_ONCE + 1)
    with ThreadPoolExecutor(max_workers=2) as threads:
        broadcasts = threads.submit(lambda: sum(map(broadcast, numbers)))
        reductions = threads.submit(lambda: sum(map(reduce, numbers)))
        return [broadcasts.result(), reductions.result()]


def meet_one_that_leaves(hosts: RankHosts, folder: Path) -> str:
    """What rank 0 is told when rank 1 joins the group and ends at once."""
    arguments = [(rank, folder) for rank in range(2)]
    assert hosts.run(f"{__name__}:{join_and_leave.__name__}", arguments) == [0, 0]
    return (folder / "told").read_text()


def join_and_leave(rank: int, folder: Path) -> None:
    """In a process of its own."""
    group = init_tp_group(RankInfo(rank, 2), f"file://{folder}/meet", LIMIT_S)
    if rank == 0:
        try:
            group.all_reduce(torch.ones(1))
        except RankLost as error:
            (folder / "told").write_text(str(error))
