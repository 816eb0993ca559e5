"""`SharedMemoryGroup`: TpGroup of ranks on one machine, which meet in memory that all of them have mapped.

The memory has no name: rank 0 makes it and hands it to the others through a socket each, so nothing of it is left
however they end. The sockets stay open, for the kernel closes them when a rank ends: that is how the others notice.
"""

import ctypes
import mmap
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ctypes import Structure, byref, c_char, c_int32, c_int64, c_uint32, c_void_p
from pathlib import Path
from typing import Protocol

import torch

from srt.distributed.rank import RankInfo
from srt.errors import RankLost, StartupError

VALUE_TYPES = {torch.float32: 0, torch.bfloat16: 1, torch.float16: 2}
RETRY_INTERVAL_S = 0.01
_ENDED, _SILENT = 1, 2


class Seat(Structure):
    """One rank's place in the memory, as the kernels see it: `Ranks` of srt/layers/native/ranks.h."""

    _fields_ = [
        ("memory", c_void_p),
        ("doors", c_void_p),
        ("num_doors", c_int32),
        ("rank", c_int32),
        ("size", c_int32),
        ("loss", c_int32),
        ("limit_ns", c_int64),
        ("num_meetings", c_uint32),
        ("num_exchanges", c_uint32),
        ("num_told", c_uint32),
        ("patience_ns", c_int64 * 2),
    ]


class RankKernels(Protocol):
    """What the native kernels do for ranks. Each but the first gives the loss, 0 for none."""

    rank_memory: Callable[[int], int]
    add_up: Callable[..., int]
    side_by_side: Callable[..., int]
    tell: Callable[..., int]


class SharedMemoryGroup:
    """See TpGroup. `seat` is for kernels that meet the other ranks by themselves; `check` what they return."""

    def __init__(
        self,
        rank: RankInfo,
        kernels: RankKernels,
        memory: mmap.mmap,
        doors: list[socket.socket],
        limit_s: float,
    ) -> None:
        self.rank = rank
        self._kernels = kernels
        self._memory = c_char.from_buffer(memory)  # which stays mapped as long as this lives
        self._doors = doors
        self._descriptors = (c_int32 * len(doors))(*(door.fileno() for door in doors))
        self.seat = Seat(
            memory=ctypes.addressof(self._memory),
            doors=ctypes.addressof(self._descriptors),
            num_doors=len(doors),
            rank=rank.rank,
            size=rank.size,
            limit_ns=int(limit_s * 1e9),
        )
        self._seat = byref(self.seat)

    def all_reduce(self, tensor: torch.Tensor) -> torch.Tensor:
        """In place, if the tensor lies in one piece. Summed in float32, in the ranks' order."""
        kind = VALUE_TYPES.get(tensor.dtype)
        if kind is None:  # whole numbers
            return self.all_gather_columns(tensor.reshape(-1, 1)).sum(1).view(tensor.shape)
        tensor = tensor.contiguous()
        self.check(self._kernels.add_up(self._seat, tensor.data_ptr(), tensor.numel(), kind))
        return tensor

    def all_gather_columns(self, tensor: torch.Tensor) -> torch.Tensor:
        """A new tensor."""
        tensor = tensor.contiguous()
        num_rows, num_columns = tensor.shape
        whole = tensor.new_empty(num_rows, self.rank.size * num_columns)
        row_bytes = num_columns * tensor.itemsize
        self.check(
            self._kernels.side_by_side(self._seat, tensor.data_ptr(), num_rows, row_bytes, whole.data_ptr())
        )
        return whole

    def broadcast_bytes(self, buffer: torch.Tensor) -> None:
        """From rank 0, in place. It may be some messages ahead of the others."""
        assert buffer.dtype == torch.uint8, f"broadcast_bytes takes bytes, not {buffer.dtype}"
        assert buffer.is_contiguous(), "what is told lies in one piece"
        self.check(self._kernels.tell(self._seat, buffer.data_ptr(), buffer.numel()))

    def all_reduce_min(self, value: int) -> int:
        """Over one number."""
        return int(self.all_gather_columns(torch.tensor([[value]], dtype=torch.int64)).min())

    def check(self, loss: int) -> None:
        """Raise RankLost if a kernel says so."""
        own = f"rank {self.rank.rank} of {self.rank.size}"
        if loss == _ENDED:
            raise RankLost(f"{own} waited for a rank that has ended")
        if loss == _SILENT:
            raise RankLost(f"{own} waited for longer than --dist-timeout for a rank that stands still")

    def close(self) -> None:
        """Let the others know that this rank has left."""
        for door in self._doors:
            door.close()
        self.seat.num_doors = 0


def meet_in_memory(rank: RankInfo, place: Path, timeout_s: float, kernels: RankKernels) -> SharedMemoryGroup:
    """Meet the other ranks at the socket `place`. Raises StartupError if they do not come in time."""
    deadline = time.monotonic() + timeout_s
    num_bytes = kernels.rank_memory(rank.size)
    doors: list[socket.socket] = []
    try:
        with _short_path(place) as address:
            if rank.is_leader:
                memory = _host(address, rank.size - 1, num_bytes, deadline, doors)
            else:
                memory = _visit(address, num_bytes, deadline, doors)
    except OSError as error:
        for door in doors:
            door.close()
        raise StartupError(
            f"rank {rank.rank} of {rank.size} could not meet the other ranks at {place}: {error}"
        ) from None
    return SharedMemoryGroup(rank, kernels, memory, doors, timeout_s)


@contextmanager
def _short_path(place: Path) -> Iterator[str]:
    """The same place by a path that is short enough for a socket, wherever the folder is."""
    folder = os.open(place.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{place.name}"
    finally:
        os.close(folder)


def _host(
    address: str, num_guests: int, num_bytes: int, deadline: float, doors: list[socket.socket]
) -> mmap.mmap:
    """Make the memory for the guests, when all are there. `doors` gets a socket to each."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen(num_guests)
        while len(doors) < num_guests:
            listener.settimeout(_left(deadline))
            doors.append(listener.accept()[0])
    os.unlink(address)
    descriptor = os.memfd_create("lockstep-ranks", os.MFD_CLOEXEC)
    try:
        os.ftruncate(descriptor, num_bytes)
        for door in doors:
            socket.send_fds(door, [b"m"], [descriptor])
        return _map(descriptor, num_bytes)
    finally:
        os.close(descriptor)


def _visit(address: str, num_bytes: int, deadline: float, doors: list[socket.socket]) -> mmap.mmap:
    """Be given the memory by rank 0. `doors` gets the socket to it."""
    door = socket.socket(socket.AF_UNIX)
    doors.append(door)
    while True:
        door.settimeout(_left(deadline))
        try:
            door.connect(address)
            break
        except (FileNotFoundError, ConnectionRefusedError):
            time.sleep(RETRY_INTERVAL_S)
    door.settimeout(_left(deadline))
    _, descriptors, _, _ = socket.recv_fds(door, 1, 1)
    if not descriptors:
        raise ConnectionResetError("rank 0 has ended")
    try:
        return _map(descriptors[0], num_bytes)
    finally:
        os.close(descriptors[0])


def _map(descriptor: int, num_bytes: int) -> mmap.mmap:
    return mmap.mmap(descriptor, num_bytes, flags=mmap.MAP_SHARED | mmap.MAP_POPULATE)


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError("they did not come in time")
    return left
