"""Several ranks in one process, joined by an in-memory broadcast."""

from collections.abc import Sequence

import torch

from managers.messages import SchedulerInput
from managers.scheduler.build import SchedulerSettings
from managers.scheduler.event_loop import follow_turn
from managers.scheduler.rank_broadcast import RankBroadcast, Tick
from managers.scheduler.scheduler import Turn
from srt.distributed.collectives import LoneGroup
from srt.distributed.rank import RankInfo
from tests.managers.scheduler.world import World


class MemoryGroup(LoneGroup):
    """The part of TpGroup that the tick needs: rank 0's buffers reach every follower, in order."""

    def __init__(self, rank: RankInfo, followers: Sequence["MemoryGroup"] = ()) -> None:
        super().__init__()
        self.rank = rank
        self.followers = followers
        self.arrived: list[torch.Tensor] = []
        self.num_broadcasts = 0

    def broadcast_bytes(self, buffer: torch.Tensor) -> None:
        assert buffer.dtype == torch.uint8
        self.num_broadcasts += 1
        if self.rank.is_leader:
            for follower in self.followers:
                follower.arrived.append(buffer.clone())
        else:
            sent = self.arrived.pop(0)
            assert sent.shape == buffer.shape, "ranks disagree about the length of a broadcast"
            buffer.copy_(sent)


class RankedWorld(World):
    """Rank 0's world, with `size - 1` further ranks that follow it."""

    def __init__(self, settings: SchedulerSettings, size: int) -> None:
        super().__init__(settings)
        self.followers = [World(settings) for _ in range(size - 1)]
        groups = [MemoryGroup(RankInfo(rank, size)) for rank in range(1, size)]
        self.group = MemoryGroup(RankInfo(0, size), groups)
        self._sender = RankBroadcast(self.group)
        self._receivers = [RankBroadcast(group) for group in groups]

    def step(self) -> Turn:
        messages: list[SchedulerInput]
        messages, self._inbox = self._inbox, []
        self.clock.advance(0.01)
        turn = self.scheduler.plan_turn(self.clock(), messages)
        self._sender.send(tick_of(turn, messages))
        for rank, (world, receiver) in enumerate(zip(self.followers, self._receivers, strict=True), start=1):
            follow_turn(world.scheduler, receiver.receive(), rank)
            world.listen()
            world.check_books()
        self.scheduler.run_turn(turn)
        self.listen()
        self.check_books()
        return turn


def tick_of(turn: Turn, messages: list[SchedulerInput]) -> Tick:
    return Tick(number=turn.number, clock=turn.clock, messages=messages, digest=turn.digest, rows=turn.rows)
