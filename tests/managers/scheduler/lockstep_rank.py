"""One rank of a lockstep proof: the real scheduler, the real loops, the real broadcast; traffic instead of a socket."""

import hashlib
import os
import random
import threading
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec
import torch

from managers.ipc import IpcAddresses
from managers.messages import DetokenizerInput, RequestFinished, SchedulerInput, SchedulerLoad, TokenBatch
from managers.process import Actor, _run
from managers.scheduler.event_loop import follow, lead
from managers.scheduler.forward_thread import HereAndNow, InThread
from managers.scheduler.rank_broadcast import Alone, RankBroadcast, Tick
from managers.scheduler.scheduler import Outbox
from srt.distributed.collectives import LoneGroup, TpGroup
from srt.distributed.groups import init_tp_group
from srt.distributed.rank import RankInfo
from srt.forward_batch import ForwardBatch, Prediction, Runner
from srt.layers.native.load import kernels
from tests.managers.scheduler.faults import FAULTS, Gate, TickChange, unchanged
from tests.managers.scheduler.traffic import Traffic, settings_for
from tests.managers.scheduler.world import World

GROUP_TIMEOUT_S = 20.0


@dataclass(frozen=True, kw_only=True)
class Job:
    """What all ranks do. `slow_rank` is delayed at random; `faulty_rank` goes wrong once, `fault_turn` or later."""

    addresses: IpcAddresses
    size: int
    seed: int
    num_turns: int
    slow_rank: int | None = None
    faulty_rank: int | None = None
    fault: str = ""
    fault_turn: int = 0
    overlaps: bool = False
    meets_in_memory: bool = True

    def report_path(self, rank: int) -> Path:
        """Where that rank writes its report."""
        return Path(self.addresses.folder) / f"rank{rank}.report"


class RankReport(msgspec.Struct):
    """What one rank has to say in the end. `fault_turn`: when it went wrong, 0 if it did not."""

    digest: bytes = b""
    output_hash: bytes = b""  # of every message to the detokenizer, in order
    num_turns: int = 0
    num_retractions: int = 0
    num_idle_turns: int = 0
    token_ids: dict[int, list[int]] = {}
    finished: dict[int, RequestFinished] = {}
    fault_turn: int = 0
    string_hash: int = 0  # of one fixed string: another one under another hash seed


def run_actor(job: Job, rank: int) -> None:
    """`run` as the launcher runs an actor: with its exit codes and its last words."""
    actor = Actor(name=f"scheduler_TP{rank}", target=f"{__name__}:run", arguments=(job, rank))
    _run(actor, job.addresses, "ERROR", "text", os.getppid())


def run(job: Job, rank: int) -> None:
    """Lead or follow until the traffic ends, and write the report. Raises LockstepDivergence."""
    torch.set_num_threads(1)
    group = init_tp_group(
        RankInfo(rank, job.size),
        job.addresses.rendezvous,
        GROUP_TIMEOUT_S,
        kernels() if job.meets_in_memory else None,
    )
    serve(job, group)
    group.close()


def serve(job: Job, group: TpGroup) -> RankReport:
    """The part of `run` that needs no process of its own."""
    rank = group.rank.rank
    world = World(settings_for(job.seed), overlaps=job.overlaps)
    delay = Delays(job.seed) if rank == job.slow_rank else no_delay
    runner = AgreeingRunner(world.runner, group, delay)
    world.scheduler._forward = InThread(runner) if job.overlaps else HereAndNow(runner)
    world.scheduler._outbox = outbox = HashedOutbox(world.outbox)
    report, change_tick = RankReport(string_hash=hash("lockstep")), unchanged
    if rank == job.faulty_rank:
        world.check_books = lambda: None  # type: ignore[method-assign]
        gate = Gate(world.scheduler, job.fault_turn, lambda turn: _write_fault(job, rank, turn))
        change_tick = FAULTS[job.fault](world, gate)
    if rank == 0:
        inbox = WatchedInbox(Traffic(job.seed, job.num_turns), world, delay, report)
        ticks = RankBroadcast(group) if job.size > 1 else Alone()
        lead(world.scheduler, inbox, ticks, world.outbox, TurnClock(job.seed))
    else:
        follow(world.scheduler, WatchedTicks(RankBroadcast(group), world, delay, change_tick), rank)
    world.listen()
    world.check_books()
    stats = world.stats()
    report.output_hash = outbox.value()
    report.digest = world.scheduler._digest.value()
    report.num_turns, report.num_retractions = stats.turn, stats.num_retractions
    report.token_ids = {request_id: heard.token_ids for request_id, heard in world.heard.items()}
    report.finished = {
        request_id: heard.finished for request_id, heard in world.heard.items() if heard.finished is not None
    }
    job.report_path(rank).write_bytes(msgspec.msgpack.encode(report))
    return report


def serve_alone(job: Job) -> RankReport:
    """What one rank makes of the same traffic."""
    return serve(job, LoneGroup())


def read_report(job: Job, rank: int) -> RankReport:
    return msgspec.msgpack.decode(job.report_path(rank).read_bytes(), type=RankReport)


def _write_fault(job: Job, rank: int, turn: int) -> None:
    job.report_path(rank).write_bytes(msgspec.msgpack.encode(RankReport(fault_turn=turn)))


class TurnClock:
    """Rank 0's clock, which the ticks carry: uneven, and the same in every run of a seed."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(f"clock {seed}")
        self._now = 1000.0

    def __call__(self) -> float:
        self._now += self._rng.choice([0.001, 0.01, 0.01, 0.05])
        return self._now


class Delays:
    """Holds a rank up now and then: mostly not, sometimes a little, rarely for long."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(f"delays {seed}")

    def __call__(self) -> None:
        """One chance to be late."""
        choice = self._rng.random()
        if choice < 0.1:
            threading.Event().wait(0.05 if choice < 0.001 else 0.001)


def no_delay() -> None:
    """In time."""


class AgreeingRunner:
    """A Runner that, like a real one, meets the other ranks in every forward pass; here it asks whether all agree."""

    def __init__(self, runner: Runner, group: TpGroup, delay: Callable[[], None]) -> None:
        self.vocab_size = runner.vocab_size
        self._runner = runner
        self._group = group
        self._delay = delay

    def forward(self, batch: ForwardBatch) -> Prediction:
        self._delay()
        parts = (batch.input_ids, batch.out_slots, batch.slot_table, batch.seq_lens)
        checksum = zlib.crc32(b"".join(part.numpy().tobytes() for part in parts))
        total = int(self._group.all_reduce(torch.tensor([checksum])).item())
        assert total == checksum * self._group.rank.size, "a difference has reached a collective"
        return self._runner.forward(batch)


class HashedOutbox:
    """An Outbox that passes on, and folds everything but how long things took into one hash."""

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self._hash = hashlib.blake2b(digest_size=16)

    def send(self, message: DetokenizerInput) -> None:
        self._hash.update(msgspec.msgpack.encode(_without_times(message)))
        self._outbox.send(message)

    def value(self) -> bytes:
        return self._hash.digest()


def _without_times(message: DetokenizerInput) -> DetokenizerInput:
    """What every rank says alike: each has its own clock to tell times by."""
    match message:
        case TokenBatch():
            finished = [msgspec.structs.replace(finished, timing=None) for finished in message.finished]
            return msgspec.structs.replace(message, finished=finished)
        case SchedulerLoad():
            figures = msgspec.structs.replace(message.figures, tick_time=[], cpu_s=0.0)
            return msgspec.structs.replace(message, figures=figures)
        case _:
            return message


class WatchedInbox:
    """Rank 0's inbox; looks after the world between two turns."""

    def __init__(self, traffic: Traffic, world: World, delay: Callable[[], None], report: RankReport) -> None:
        self._traffic = traffic
        self._world = world
        self._delay = delay
        self._report = report

    def receive(self, timeout_s: float) -> list[SchedulerInput]:
        self._world.listen()
        self._world.check_books()
        self._delay()
        self._report.num_idle_turns += timeout_s > 0
        return self._traffic.receive(timeout_s)


class WatchedTicks:
    """A follower's ticks, as broadcast or, in the hands of a fault, otherwise."""

    def __init__(
        self, broadcast: RankBroadcast, world: World, delay: Callable[[], None], change: TickChange
    ) -> None:
        self._broadcast = broadcast
        self._world = world
        self._delay = delay
        self._change = change

    def receive(self) -> Tick:
        self._world.listen()
        self._world.check_books()
        self._delay()
        return self._change(self._broadcast.receive())
