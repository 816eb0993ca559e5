"""Make the group of ranks that share one model. They all run on this machine.

They meet in shared memory where the native kernels are, over loopback where they are not: all ranks alike.
"""

import os
from datetime import timedelta
from pathlib import Path

import torch.distributed as dist

from srt.distributed.collectives import GlooGroup, LoneGroup, TpGroup
from srt.distributed.rank import RankInfo
from srt.distributed.shared_memory import RankKernels, meet_in_memory
from srt.errors import StartupError

FILE = "file://"


def init_tp_group(
    rank: RankInfo, init_method: str, timeout_s: float, kernels: RankKernels | None = None
) -> TpGroup:
    """Meet the other ranks at `init_method` (file:///PATH, or without kernels tcp://127.0.0.1:PORT too) in time.

    The same limit holds for every later collective. Raises StartupError if the others do not come.
    A rank alone meets nobody and `init_method` is not looked at.
    """
    if rank.size == 1:
        return LoneGroup()
    if kernels is not None:
        return meet_in_memory(rank, Path(init_method.removeprefix(FILE) + ".s"), timeout_s, kernels)
    # Gloo would listen on whatever address the host's name has.
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    try:
        dist.init_process_group(
            "gloo",
            init_method=init_method,
            rank=rank.rank,
            world_size=rank.size,
            timeout=timedelta(seconds=timeout_s),
        )
    except (RuntimeError, ValueError) as error:
        raise StartupError(
            f"rank {rank.rank} of {rank.size} could not meet the other ranks at {init_method}: {error}"
        ) from None
    process_group = dist.group.WORLD
    assert process_group is not None, "init_process_group makes the world group"
    return GlooGroup(rank, process_group)
