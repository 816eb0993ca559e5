"""Ranks that meet in shared memory; here each is a thread."""

import ctypes
import select
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch

from srt.distributed.rank import MAX_RANKS_IN_MEMORY, RankInfo
from srt.distributed.shared_memory import SharedMemoryGroup, meet_in_memory
from srt.errors import RankLost, StartupError
from srt.layers.native.load import kernels
from tests.fakes.ranks_in_threads import run_in_threads

# From less than a vector up to more than the memory takes at a time.
SHAPES = [(1, 5), (1, 576), (3, 4099), (32, 576), (300, 1000)]
DTYPES = [torch.float32, torch.bfloat16, torch.float16]


def part(rank: int, shape: tuple[int, int], dtype: torch.dtype) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(rank)).to(dtype)


@pytest.mark.parametrize("size", [2, 3, 5])
def test_sums_are_those_in_the_order_of_ranks_in_float32(size: int, tmp_path: Path) -> None:
    cases = [(shape, dtype) for shape in SHAPES for dtype in DTYPES]

    def work(group: SharedMemoryGroup) -> list[torch.Tensor]:
        return [group.all_reduce(part(group.rank.rank, shape, dtype)) for shape, dtype in cases]

    found = run_in_threads(size, tmp_path, work)
    for case, (shape, dtype) in enumerate(cases):
        total = part(0, shape, dtype).float()
        for rank in range(1, size):
            total += part(rank, shape, dtype).float()
        assert all(torch.equal(sums[case], total.to(dtype)) for sums in found)


@pytest.mark.parametrize("size", [2, 3])
def test_columns_come_side_by_side_in_the_order_of_ranks(size: int, tmp_path: Path) -> None:
    shapes = [(1, 7), (5, 24_576), (2000, 100)]

    def work(group: SharedMemoryGroup) -> list[torch.Tensor]:
        return [group.all_gather_columns(part(group.rank.rank, shape, torch.bfloat16)) for shape in shapes]

    for columns in run_in_threads(size, tmp_path, work):
        for found, shape in zip(columns, shapes, strict=True):
            parts = [part(rank, shape, torch.bfloat16) for rank in range(size)]
            assert torch.equal(found, torch.cat(parts, dim=1))


def test_whole_numbers_are_exact(tmp_path: Path) -> None:
    def work(group: SharedMemoryGroup) -> tuple[list[int], int]:
        rank = group.rank.rank
        return group.all_reduce(torch.tensor([2**60 + rank, rank])).tolist(), group.all_reduce_min(5 - rank)

    assert run_in_threads(3, tmp_path, work) == [([3 * 2**60 + 3, 3], 3)] * 3


def test_everybody_hears_what_rank_0_tells_in_its_order_whatever_its_length(tmp_path: Path) -> None:
    lengths = [1, 8192, 100_000, 0, 16_384, 3] * 5

    def work(group: SharedMemoryGroup) -> bool:
        heard = [torch.zeros(length, dtype=torch.uint8) for length in lengths]
        for number, buffer in enumerate(heard):
            if group.rank.is_leader:
                buffer.fill_(number + 1)
            group.broadcast_bytes(buffer)
        return all(bool((buffer == number + 1).all()) for number, buffer in enumerate(heard))

    assert run_in_threads(3, tmp_path, work) == [True] * 3


def test_counts_may_run_over(tmp_path: Path) -> None:
    all_there = threading.Barrier(2)

    def work(group: SharedMemoryGroup) -> list[float]:
        # As after some billions of meetings; each counter begins a cache line pair of the memory.
        beginning = (2**32 - 3) & ~1
        group.seat.num_meetings = group.seat.num_exchanges = group.seat.num_told = beginning
        places = (
            group.rank.rank,
            MAX_RANKS_IN_MEMORY if group.rank.is_leader else MAX_RANKS_IN_MEMORY + 1 + group.rank.rank,
        )
        for place in places:
            ctypes.c_uint32.from_address(group.seat.memory + 128 * place).value = beginning
        all_there.wait(30)
        sums = [float(group.all_reduce(torch.tensor([float(number)]))) for number in range(6)]
        for number in range(9):
            words = torch.tensor([number if group.rank.is_leader else 0], dtype=torch.uint8)
            group.broadcast_bytes(words)
            sums.append(float(words))
        return sums

    expected = [*(2.0 * number for number in range(6)), *map(float, range(9))]
    assert run_in_threads(2, tmp_path, work) == [expected] * 2


def test_a_rank_that_has_ended_is_noticed_by_who_waits_for_it(tmp_path: Path) -> None:
    def work(group: SharedMemoryGroup) -> str:
        group.all_reduce(torch.ones(3))
        if group.rank.rank == 1:
            return ""
        with pytest.raises(RankLost) as raised:
            group.all_reduce(torch.ones(3))
        with pytest.raises(RankLost):
            group.broadcast_bytes(torch.zeros(100_000, dtype=torch.uint8))
        return str(raised.value)

    told, _ = run_in_threads(2, tmp_path, work)
    assert told == "rank 0 of 2 waited for a rank that has ended"


def test_what_a_rank_has_told_before_it_left_is_heard(tmp_path: Path) -> None:
    has_left = threading.Event()

    def work(group: SharedMemoryGroup) -> list[int]:
        words = torch.tensor([7 if group.rank.is_leader else 0], dtype=torch.uint8)
        if group.rank.is_leader:
            group.broadcast_bytes(words)
            group.close()
            has_left.set()
        else:
            has_left.wait(30)
            group.broadcast_bytes(words)
        return words.tolist()

    assert run_in_threads(2, tmp_path, work) == [[7], [7]]


def test_a_rank_that_stands_still_is_given_up_after_the_limit(tmp_path: Path) -> None:
    has_given_up = threading.Event()

    def work(group: SharedMemoryGroup) -> str:
        if group.rank.rank == 1:
            has_given_up.wait(30)
            return ""
        with pytest.raises(RankLost) as raised:
            group.all_reduce(torch.ones(3))
        has_given_up.set()
        return str(raised.value)

    told, _ = run_in_threads(2, tmp_path, work, limit_s=0.3)
    assert told == "rank 0 of 2 waited for longer than --dist-timeout for a rank that stands still"


TWO_RANKS = """
import sys, tempfile, torch
from pathlib import Path
from tests.fakes.ranks_in_threads import run_in_threads

def work(group):
    if group.rank.rank == 1:
        print("ready", flush=True)
        sys.stdin.readline()
    return group.all_reduce(torch.ones(3)).tolist()

with tempfile.TemporaryDirectory() as folder:
    print(run_in_threads(2, Path(folder), work, limit_s=1.0), flush=True)
"""


def test_time_in_which_the_whole_machine_stood_still_is_nobodys_silence() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", TWO_RANKS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGSTOP)
        assert select.select([process.stdout], [], [], 1.5) == ([], [], [])
        process.send_signal(signal.SIGCONT)
        assert process.communicate("go\n", timeout=60)[0] == "[[2.0, 2.0, 2.0], [2.0, 2.0, 2.0]]\n"


def test_nothing_is_left_in_the_folder(tmp_path: Path) -> None:
    assert run_in_threads(2, tmp_path, lambda group: len(list(tmp_path.iterdir()))) == [0, 0]


def test_ranks_that_do_not_come_are_reported(tmp_path: Path) -> None:
    for rank in range(2):
        with pytest.raises(StartupError, match=f"rank {rank} of 2 could not meet the other ranks at /"):
            meet_in_memory(RankInfo(rank, 2), tmp_path / "ranks", 0.1, kernels())
        (tmp_path / "ranks").unlink(missing_ok=True)


def test_a_host_that_dies_while_they_meet_is_reported(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "ranks"))
        listener.listen()
        host = threading.Thread(target=lambda: listener.accept()[0].close())
        host.start()
        with pytest.raises(StartupError, match="rank 0 has ended"):
            meet_in_memory(RankInfo(1, 2), tmp_path / "ranks", 10.0, kernels())
        host.join()
