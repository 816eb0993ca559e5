"""`Tick` and how it reaches every rank: the same inputs, in the same order, and proof of the same decisions.

One broadcast of a fixed size a turn; only a tick that does not fit costs a second. No pickle.
"""

from typing import Protocol

import msgspec
import torch

from managers.messages import Message, SchedulerInput
from managers.scheduler.decision_digest import differing_subjects
from srt.distributed.collectives import TpGroup
from srt.errors import LockstepDivergence

FRAME_BYTES = 8192
_HEADER_BYTES = 8
_PAYLOAD_BYTES = FRAME_BYTES - _HEADER_BYTES


class Tick(Message, frozen=True):
    """One turn's inputs, and what rank 0 made of them.

    `clock` is the only time that a rank may decide by. `rows` is the plan: request id and number of tokens,
    alternating; `digest` covers every decision up to and including this plan.
    """

    number: int
    clock: float
    messages: list[SchedulerInput]
    digest: bytes
    rows: list[int]


class TickSender(Protocol):
    """Rank 0's end."""

    def send(self, tick: Tick) -> None:
        """Give the tick to every other rank."""
        ...


class TickReceiver(Protocol):
    """The other ranks' end."""

    def receive(self) -> Tick:
        """Wait for the next tick."""
        ...


class Alone:
    """TickSender of a rank without others."""

    def send(self, tick: Tick) -> None:
        """Nobody to tell."""


class RankBroadcast:
    """Both ends over a group of ranks. Every rank makes the same calls in the same order."""

    def __init__(self, group: TpGroup) -> None:
        self._group = group
        self._frame = torch.zeros(FRAME_BYTES, dtype=torch.uint8)
        self._bytes = self._frame.numpy().data  # the same memory
        self._encoder = msgspec.msgpack.Encoder()
        self._decoder = msgspec.msgpack.Decoder(Tick)

    def send(self, tick: Tick) -> None:
        """Give the tick to every other rank."""
        payload = self._encoder.encode(tick)
        head = len(payload).to_bytes(_HEADER_BYTES, "little") + payload[:_PAYLOAD_BYTES]
        self._bytes[: len(head)] = head
        self._group.broadcast_bytes(self._frame)
        rest = payload[_PAYLOAD_BYTES:]
        if rest:
            self._group.broadcast_bytes(torch.frombuffer(bytearray(rest), dtype=torch.uint8))

    def receive(self) -> Tick:
        """Wait for the next tick."""
        self._group.broadcast_bytes(self._frame)
        length = int.from_bytes(self._bytes[:_HEADER_BYTES], "little")
        payload = self._bytes[_HEADER_BYTES : _HEADER_BYTES + length].tobytes()
        if length > _PAYLOAD_BYTES:
            rest = torch.empty(length - _PAYLOAD_BYTES, dtype=torch.uint8)
            self._group.broadcast_bytes(rest)
            payload += rest.numpy().tobytes()
        return self._decoder.decode(payload)


def check_agreement(tick: Tick, *, rank: int, number: int, digest: bytes, rows: list[int]) -> None:
    """Raise LockstepDivergence unless this rank planned turn `number` exactly as rank 0 did."""
    if (tick.number, tick.digest) == (number, digest):
        return
    subjects = "; ".join(differing_subjects(tick.digest, digest)) or "the order of events"
    raise LockstepDivergence(
        f"turn {tick.number}: rank {rank} and rank 0 decided differently. They differ in: {subjects}. "
        f"Rank 0 planned for turn {tick.number}: {describe_rows(tick.rows)}. "
        f"Rank {rank} planned for turn {number}: {describe_rows(rows)}."
    )


def describe_rows(rows: list[int]) -> str:
    """A plan, for people."""
    pairs = [f"request {request_id} +{num}" for request_id, num in zip(rows[::2], rows[1::2], strict=True)]
    return ", ".join(pairs) if pairs else "nothing to run"
