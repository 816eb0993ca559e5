"""`Scheduler`: owns the parts, hands each message and each step to the right one.

`plan_turn` applies the messages and decides; everything it does depends on its arguments and on earlier turns
only, so every rank decides the same. `run_turn` computes what was decided, in one of two ways:

* serial: compute, then apply the results. Nothing lags.
* overlapped: start computing, and meanwhile apply the results of the turn before. So a turn is planned before
  the verdicts on the last one are known. What that delays: a request that ends by a stop string or token is
  found out one turn late, and one row was computed for nothing; one that ends by its length is not, for
  that is known beforehand. Tokens, penalties and seeds do not lag: sampling comes after the verdicts.

Memory needs no care: slots that are given away while a step still uses them are first written by a later step.
Next on the request's path: managers/scheduler/waiting_queue.py
"""

import logging
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, assert_never

import numpy as np
import numpy.typing as npt
import torch

from managers.messages import (
    AbortRequest,
    DefineGrammar,
    DetokenizerInput,
    FlushCache,
    ForgetGrammar,
    GetState,
    RequestId,
    SchedulerInput,
    Shutdown,
    TokenizedRequest,
)
from managers.scheduler.batch import Batch
from managers.scheduler.control import Facts, flush_cache, report_state
from managers.scheduler.deadlines import Deadlines
from managers.scheduler.decision_digest import Decision, DecisionDigest
from managers.scheduler.finish import CLIENT_LEFT, Finish, broken
from managers.scheduler.forward_thread import ForwardPass, ForwardStarter
from managers.scheduler.grammars import Grammars
from managers.scheduler.intake import RequestIntake
from managers.scheduler.invariants import check_idle, is_balanced
from managers.scheduler.logprob_teller import LogprobTeller
from managers.scheduler.output_builder import OutputBuilder
from managers.scheduler.queue_limit import EVICTED, QueueLimit
from managers.scheduler.request import Request, Stage
from managers.scheduler.request_memory import RequestMemory
from managers.scheduler.result_processor import ResultProcessor
from managers.scheduler.stats import LoadReports, SchedulerStats, StatsKeeper, log_step
from managers.scheduler.step_planner import StepPlan, StepPlanner
from managers.scheduler.waiting_queue import WaitingQueue
from srt.sampling.batch_params import SampleRow
from srt.sampling.logprobs import LogprobReader

logger = logging.getLogger(__name__)

# Of a grammar, for the digest: all of a usual one, and a large one does not hold up the step.
CHECKED_BYTES = 64 * 1024


class Outbox(Protocol):
    """Where messages for the detokenizer go: a socket on rank 0, nowhere on the others."""

    def send(self, message: DetokenizerInput) -> None:
        """Queue one message; never blocks."""
        ...


class TokenSampler(Protocol):
    """What the scheduler needs of srt.sampling.sampler."""

    def sample(self, logits: torch.Tensor, rows: Sequence[SampleRow]) -> npt.NDArray[np.int64]:
        """One token id a row."""
        ...


@dataclass(frozen=True, slots=True)
class InFlight:
    """A turn whose forward pass has started."""

    turn: "Turn"
    batch: Batch
    forward: ForwardPass
    reader: LogprobReader | None


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn, decided but not yet run. `rows` and `digest` are what ranks compare."""

    number: int
    clock: float
    batch: Batch | None
    admitted: list[Request]
    digest: bytes
    rows: list[int] = field(default_factory=list)


class Scheduler:
    """One rank's scheduler. The same calls with the same arguments make the same decisions on every rank."""

    def __init__(
        self,
        *,
        intake: RequestIntake,
        grammars: Grammars,
        waiting: WaitingQueue,
        planner: StepPlanner,
        memory: RequestMemory,
        forward: ForwardStarter,
        overlaps: bool,
        sampler: TokenSampler,
        digest: DecisionDigest,
        output: OutputBuilder,
        outbox: Outbox,
        keeper: StatsKeeper,
        facts: Facts,
        queue_limit: QueueLimit,
        deadlines: Deadlines,
        teller: LogprobTeller,
        clock: Callable[[], float],
    ) -> None:
        self._intake = intake
        self._grammars = grammars
        self._waiting = waiting
        self._planner = planner
        self._memory = memory
        self._forward = forward
        self._overlaps = overlaps
        self._sampler = sampler
        self._digest = digest
        self._output = output
        self._outbox = outbox
        self._keeper = keeper
        self._facts = facts
        self._queue_limit = queue_limit
        self._deadlines = deadlines
        self._teller = teller
        self._clock = clock  # for people; what is decided is decided by the tick's
        self._results = ResultProcessor(waiting, memory, output, digest, keeper.work, clock)
        self._loads = LoadReports()
        self._live: dict[RequestId, Request] = {}
        self._in_flight: InFlight | None = None
        self._turn_number = 0
        self._needs_full_check = False
        self.is_shut_down = False

    @property
    def is_idle(self) -> bool:
        """Whether no request runs or waits, and no results are to come."""
        return not self._live and self._in_flight is None

    @property
    def is_in_flight(self) -> bool:
        """Whether a step is being computed whose results are to come in the next turn."""
        return self._in_flight is not None

    @property
    def running(self) -> Sequence[Request]:
        """Requests that hold KV, by arrival."""
        return self._planner.running

    def is_grammar_read(self, grammar_id: int) -> bool:
        """Whether a request that names this grammar can be computed without a wait."""
        return self._grammars.is_read(grammar_id)

    def plan_turn(self, clock: float, messages: Sequence[SchedulerInput]) -> Turn:
        """Apply the messages, choose what runs. Decisions only: nothing is computed yet."""
        self._turn_number += 1
        self._digest.record_array(Decision.CLOCK, np.array([clock]))
        for message in messages:
            self._apply(message, clock)
        for request, finish in self._deadlines.take_due(clock):
            self._retire(request, finish)
        plan = self._planner.plan()
        while plan.hopeless is not None:
            self._retire(plan.hopeless, broken("the KV memory has no room for this request"))
            plan = self._planner.plan()
        self._keeper.admitted(plan.admitted, clock)
        self._keeper.work.gave_way([*plan.retracted, *plan.preempted])
        self._deadlines.note_admitted(plan.admitted, clock)
        turn = self._turn(plan, clock)
        self._send_output()
        return turn

    def run_turn(self, turn: Turn) -> None:
        """Compute the turn's batch, apply what results there are, tell the detokenizer."""
        flight = self._run_overlapped(turn) if self._overlaps else self._run_serial(turn)
        if flight is None:
            self._keeper.throughput.add(0, turn.clock)
        self._send_output()
        if turn.batch is not None:
            self._keeper.work.ended_turn(self._clock() - turn.clock)
        self._look_after_idle(ran=flight is not None)
        if self._loads.is_due(len(self._planner.running), len(self._waiting), turn.clock):
            self._outbox.send(self.stats().as_load(self._keeper.work.figures()))

    def _run_serial(self, turn: Turn) -> InFlight | None:
        flight = self._start(turn)
        if flight is not None:
            self._judge(flight, self._grow(flight))
        return flight

    def _run_overlapped(self, turn: Turn) -> InFlight | None:
        flight = self._in_flight
        # The next batch feeds on this one's tokens, so they come first.
        token_ids = self._grow(flight) if flight is not None else None
        self._in_flight = self._start(turn)
        if flight is not None and token_ids is not None:
            self._judge(flight, token_ids)
        return flight

    def _start(self, turn: Turn) -> InFlight | None:
        if turn.batch is None:
            return None
        slot_table = self._memory.slot_table([row.request for row in turn.batch.rows])
        reader = self._teller.reader(turn.batch)
        forward = self._forward.start(turn.batch.forward_batch(slot_table, reader))
        return InFlight(turn, turn.batch, forward, reader)

    def _grow(self, flight: InFlight) -> npt.NDArray[np.int64]:
        """Wait for what the model says, sample; the requests have their tokens then."""
        logits, likeliest = flight.forward.result()
        self._teller.keep(flight.batch, logits)
        token_ids: npt.NDArray[np.int64] = likeliest.numpy()
        if rows := flight.batch.sample_rows():
            token_ids = np.concatenate([self._sampler.sample(logits, rows), token_ids])
        self._results.grow(flight.batch, token_ids)
        return token_ids

    def _judge(self, flight: InFlight, token_ids: npt.NDArray[np.int64]) -> None:
        self._keeper.throughput.add(len(token_ids), flight.turn.clock)
        self._keeper.work.computed(flight.batch.num_tokens - flight.batch.num_decode_rows, len(token_ids))
        self._teller.tell(flight.batch, token_ids, flight.reader)
        self._forget(self._results.judge(flight.batch, token_ids))
        if self._keeper.is_log_due(flight.batch):
            log_step(flight.batch, flight.turn.admitted, self.stats())

    def stats(self) -> SchedulerStats:
        """How things are now."""
        return SchedulerStats(
            turn=self._turn_number,
            num_running=len(self._planner.running),
            num_waiting=len(self._waiting),
            num_waiting_uncached_tokens=self._waiting.num_uncached_tokens,
            memory=self._memory.stats(),
            max_running_requests=self._planner.max_running_requests,
            gen_throughput=self._keeper.throughput.rate,
            cache_hit_rate=self._keeper.cache_hit_rate,
            num_finished=self._keeper.num_finished,
            num_retractions=self._keeper.work.num_retractions,
            num_ledger_repairs=self._keeper.num_ledger_repairs,
        )

    def _apply(self, message: SchedulerInput, clock: float) -> None:
        match message:
            case TokenizedRequest():
                self._add(message, clock)
            case AbortRequest(request_ids=request_ids):
                for request_id in request_ids:
                    request = self._live.get(request_id)
                    if request is not None:
                        self._retire(request, CLIENT_LEFT)
            case DefineGrammar(grammar_id=grammar_id, payload=payload):
                self._digest.record(
                    Decision.GRAMMAR, (grammar_id, len(payload), zlib.crc32(payload[:CHECKED_BYTES]))
                )
                self._grammars.define(grammar_id, payload)
            case ForgetGrammar(grammar_id=grammar_id):
                self._digest.record(Decision.GRAMMAR, (grammar_id,))
                self._grammars.forget(grammar_id)
            case FlushCache():
                reply = flush_cache(message, len(self._planner.running), len(self._waiting), self._memory)
                if reply.done:
                    self._keeper.forget_hits()
                self._outbox.send(reply)
            case GetState():
                self._outbox.send(report_state(message, self._facts, self.stats()))
            case Shutdown():
                self.is_shut_down = True
            case _:
                assert_never(message)

    def _add(self, message: TokenizedRequest, clock: float) -> None:
        if message.request_id in self._live:
            logger.error("request %d came twice; the second is ignored", message.request_id)
            return
        request = self._intake.accept(message, self._live)
        if isinstance(request, Request):
            request = self._make_place(request) or request
        if isinstance(request, Finish):
            self._keeper.work.ended(request)
            self._output.refused(message.request_id, len(message.input_ids) // 4, request)
            self._digest.record(Decision.FINISH, (message.request_id, request.reason.status_code))
            return
        self._digest.record(Decision.ARRIVE, (request.id, request.arrival, request.prompt_len))
        if request.waits_for_leader:
            request.num_expected_cached = request.num_matchable
        else:
            request.num_expected_cached = self._memory.num_cached(request)
        request.arrived_at = clock
        self._live[request.id] = request
        self._waiting.add(request)
        self._deadlines.note_arrival(request, clock, message.timeout_s)
        self._planner.somebody_left()  # a newcomer may be small enough where others are not

    def _make_place(self, newcomer: Request) -> Finish | None:
        """In the queue, at another's cost if need be; why not, if there is none."""
        if newcomer.is_probe:
            return None
        num_places = self._planner.max_running_requests - len(self._planner.running)
        verdict = self._queue_limit.decide(newcomer.urgency, self._waiting, num_places)
        if isinstance(verdict, Request):
            self._retire(verdict, EVICTED)
            return None
        return verdict

    def _retire(self, request: Request, finish: Finish) -> None:
        self._results.retire(request, finish)
        self._forget([request])

    def _forget(self, ended: Sequence[Request]) -> None:
        if not ended:
            return
        for request in ended:
            del self._live[request.id]
        if any(request.num_cached_tokens is not None for request in ended):  # else none of them ever ran
            self._planner.running[:] = [
                request for request in self._planner.running if request.stage is Stage.RUNNING
            ]
        self._planner.somebody_left()
        self._keeper.num_finished += len(ended)

    def _turn(self, plan: StepPlan, clock: float) -> Turn:
        batch = Batch.begin(plan.rows) if plan.rows else None
        rows = [number for row in batch.rows for number in (row.request.id, row.num_tokens)] if batch else []
        self._digest.record(Decision.ROWS, rows)
        return Turn(self._turn_number, clock, batch, plan.admitted, self._digest.value(), rows)

    def _send_output(self) -> None:
        message = self._output.take()
        if message is not None:
            self._outbox.send(message)

    def _look_after_idle(self, *, ran: bool) -> None:
        """Check the books: cheaply when the last request leaves, thoroughly once nothing came since."""
        self._needs_full_check |= ran
        if not self.is_idle:
            return
        if is_balanced(self._memory) and (ran or not self._needs_full_check):
            return
        self._needs_full_check = False
        if check_idle(self._memory):
            self._keeper.num_ledger_repairs += 1
