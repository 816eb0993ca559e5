"""The two loops: rank 0 leads, the other ranks follow. One turn after another until told to stop.

Both loops are the same whether or not a step's results are applied while the next one is computed: that is the
scheduler's business (see scheduler.py), and all ranks do the same.
Next on the request's path: managers/scheduler/scheduler.py
"""

from collections.abc import Callable
from typing import Protocol

from managers.messages import SchedulerInput, Shutdown
from managers.pulses import HEARTBEAT_S
from managers.scheduler.rank_broadcast import (
    Tick,
    TickReceiver,
    TickSender,
    check_agreement,
    describe_rows,
)
from managers.scheduler.scheduler import Outbox, Scheduler
from srt.errors import LockstepDivergence


class Inbox(Protocol):
    """Where messages come from: managers.ipc.Receiver, or a test's list."""

    def receive(self, timeout_s: float) -> list[SchedulerInput]:
        """Everything that has arrived, waiting up to `timeout_s` for the first."""
        ...


def no_beat() -> None:
    """Nobody listens."""


def lead(
    scheduler: Scheduler,
    inbox: Inbox,
    ticks: TickSender,
    outbox: Outbox,
    clock: Callable[[], float],
    beat: Callable[[], None] = no_beat,
) -> None:
    """Rank 0: take in messages, plan, tell the others, compute. Returns after a Shutdown, having passed it on.

    It calls `beat` in every turn; an idle one lets the other ranks and whoever listens know that it lives.
    """
    patience_s = 0.0  # the first turn tells at once how busy it is
    while not scheduler.is_shut_down:
        beat()
        messages = inbox.receive(patience_s)
        turn = scheduler.plan_turn(clock(), messages)
        ticks.send(
            Tick(number=turn.number, clock=turn.clock, messages=messages, digest=turn.digest, rows=turn.rows)
        )
        scheduler.run_turn(turn)
        patience_s = HEARTBEAT_S if scheduler.is_idle else 0.0
    outbox.send(Shutdown())


def follow(scheduler: Scheduler, ticks: TickReceiver, rank: int, beat: Callable[[], None] = no_beat) -> None:
    """Another rank: plan the same, check that it is the same, compute. Raises LockstepDivergence."""
    while not scheduler.is_shut_down:
        beat()
        follow_turn(scheduler, ticks.receive(), rank)


def follow_turn(scheduler: Scheduler, tick: Tick, rank: int) -> None:
    """One turn. The check comes before the model: a difference must never reach a collective."""
    try:
        turn = scheduler.plan_turn(tick.clock, tick.messages)
    except (AssertionError, LookupError, ValueError) as error:
        # Rank 0 planned this very turn from the same input, so what we stumble over is a difference.
        raise LockstepDivergence(
            f"turn {tick.number}: rank {rank} cannot plan what rank 0 planned, {describe_rows(tick.rows)}: {error!r}"
        ) from error
    check_agreement(tick, rank=rank, number=turn.number, digest=turn.digest, rows=turn.rows)
    scheduler.run_turn(turn)
