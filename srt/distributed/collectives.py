"""`TpGroup`: what the ranks of one model say to each other; nothing at all when a rank is alone.

Calls must come in the same order on every rank; `broadcast_bytes` alone may be called from another thread, in
an order of its own. A rank that waits longer than the group's time limit, or for one that is gone, gets a
RankLost, and so do the others.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

import torch
import torch.distributed as dist

from srt.distributed.rank import ALONE, RankInfo
from srt.errors import RankLost


class TpGroup(Protocol):
    """The tensor-parallel ranks, seen from one of them."""

    rank: RankInfo

    def all_reduce(self, tensor: torch.Tensor) -> torch.Tensor:
        """The sum over ranks, bit for bit the same on all; may overwrite `tensor`."""
        ...

    def all_gather_columns(self, tensor: torch.Tensor) -> torch.Tensor:
        """(rows, columns) of every rank side by side in rank order; the shapes are the same on all."""
        ...

    def broadcast_bytes(self, buffer: torch.Tensor) -> None:
        """Copy rank 0's `buffer` (uint8, the same length on all) into every other rank's."""
        ...

    def all_reduce_min(self, value: int) -> int:
        """The smallest `value` of any rank."""
        ...

    def close(self) -> None:
        """Leave the group. Waits for nobody."""
        ...


class LoneGroup:
    """TpGroup of a rank without others."""

    def __init__(self) -> None:
        self.rank = ALONE

    def all_reduce(self, tensor: torch.Tensor) -> torch.Tensor:
        """The tensor itself."""
        return tensor

    def all_gather_columns(self, tensor: torch.Tensor) -> torch.Tensor:
        """The tensor itself."""
        return tensor

    def broadcast_bytes(self, buffer: torch.Tensor) -> None:
        """Nobody to tell."""

    def all_reduce_min(self, value: int) -> int:
        """The value itself."""
        return value

    def close(self) -> None:
        """Nothing to leave."""


class GlooGroup:
    """TpGroup over gloo, for ranks on CPUs."""

    def __init__(self, rank: RankInfo, process_group: dist.ProcessGroup) -> None:
        self.rank = rank
        self._process_group = process_group

    def all_reduce(self, tensor: torch.Tensor) -> torch.Tensor:
        """In place. Gloo reduces each part of the tensor on one rank, so that all see the same sum."""
        with self._meeting():
            dist.all_reduce(tensor, group=self._process_group)
        return tensor

    def all_gather_columns(self, tensor: torch.Tensor) -> torch.Tensor:
        """A new tensor."""
        parts = [torch.empty_like(tensor) for _ in range(self.rank.size)]
        with self._meeting():
            dist.all_gather(parts, tensor, group=self._process_group)
        return torch.cat(parts, dim=1)

    def broadcast_bytes(self, buffer: torch.Tensor) -> None:
        """From rank 0, in place. Sent to each rank by itself: gloo's broadcast passes through a thread pool.

        Such a message meets only its like, so another thread may be in one of the other calls meanwhile.
        """
        assert buffer.dtype == torch.uint8, f"broadcast_bytes takes bytes, not {buffer.dtype}"
        with self._meeting():
            if self.rank.is_leader:
                works = [self._process_group.send([buffer], rank, 0) for rank in range(1, self.rank.size)]
            else:
                works = [self._process_group.recv([buffer], 0, 0)]
            for work in works:
                work.wait()

    def all_reduce_min(self, value: int) -> int:
        """Over one number."""
        number = torch.tensor([value], dtype=torch.int64)
        with self._meeting():
            dist.all_reduce(number, op=dist.ReduceOp.MIN, group=self._process_group)
        return int(number.item())

    @contextmanager
    def _meeting(self) -> Iterator[None]:
        """All that gloo raises once it runs is that somebody is missing."""
        try:
            yield
        except RuntimeError as error:
            raise RankLost(
                f"rank {self.rank.rank} of {self.rank.size} waited for a rank that has ended, "
                f"or stood still for longer than --dist-timeout: {error}"
            ) from None

    def close(self) -> None:
        """Close this rank's connections."""
        dist.destroy_process_group(self._process_group)
