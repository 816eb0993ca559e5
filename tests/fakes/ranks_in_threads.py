"""Ranks that meet in shared memory as real ones do, but each in a thread: no process to start."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from srt.distributed.rank import RankInfo
from srt.distributed.shared_memory import SharedMemoryGroup, meet_in_memory
from srt.layers.native.load import kernels

T = TypeVar("T")


def run_in_threads(
    size: int, folder: Path, work: Callable[[SharedMemoryGroup], T], limit_s: float = 60.0
) -> list[T]:
    """What `work` gives on each rank."""

    def run(rank: int) -> T:
        group = meet_in_memory(RankInfo(rank, size), folder / "ranks", limit_s, kernels())
        try:
            return work(group)
        finally:
            group.close()

    with ThreadPoolExecutor(size) as ranks:
        return list(ranks.map(run, range(size)))
