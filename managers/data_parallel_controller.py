"""The actor between the front and the replicas of the model, if there are several: who gets which request.

Owns which replica has which open request, and the count of what each has been sent. It sees no answers: the front
tells it who has ended and how busy each replica says it is. Aborts go to the owner, admin requests to all. What a
lost replica had ends with an error, by way of the detokenizer, which forgets it too.
Next on the request's path: managers/scheduler/event_loop.py
"""

import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, assert_never

from managers.dispatch_policy import POLICIES, DispatchPolicy, ReplicaLoad
from managers.ipc import IpcAddresses, Receiver, Sender
from managers.messages import (
    AbortRequest,
    ControllerInput,
    DefineGrammar,
    DetokenizerInput,
    FlushCache,
    ForgetGrammar,
    GetState,
    ReplicaLost,
    RequestFinished,
    RequestId,
    RequestsEnded,
    SchedulerInput,
    SchedulerLoad,
    Shutdown,
    TokenBatch,
    TokenizedRequest,
)
from managers.process import report_ready
from managers.pulses import HEARTBEAT_S
from srt.engine_client import FinishReason

logger = logging.getLogger(__name__)

_BYTES_PER_TOKEN = 4


def run(addresses: IpcAddresses, dp_size: int, policy: str, silence_limit_s: float) -> None:
    """Pass messages on until told to stop. `policy` is a name of POLICIES."""
    receiver = Receiver[ControllerInput](addresses.controller_input, ControllerInput)
    controller = DataParallelController(
        [Sender[SchedulerInput](addresses.of_replica(rank).scheduler_input) for rank in range(dp_size)],
        Sender[DetokenizerInput](addresses.detokenizer_input),
        POLICIES[policy](),
        silence_limit_s=silence_limit_s,
    )
    pulse = report_ready(addresses, {})
    while not controller.is_shut_down:
        pulse.beat()
        for message in receiver.receive(HEARTBEAT_S):
            controller.handle(message)


class ReplicaSender(Protocol):
    """The socket of one replica's rank 0."""

    def send(self, message: SchedulerInput) -> None:
        """Queue one message; never blocks."""
        ...


class DetokenizerSender(Protocol):
    """The detokenizer's socket."""

    def send(self, message: DetokenizerInput) -> None:
        """Queue one message; never blocks."""
        ...


class _Replica:
    """What is known of one replica that lives."""

    def __init__(self, dp_rank: int, sender: ReplicaSender, now: float) -> None:
        self.dp_rank = dp_rank
        self.sender = sender
        self.num_open = 0
        self.last_report = now
        self._num_sent = 0
        self._num_reported_tokens = 0
        self._capacity = 0
        # (number, tokens) of requests that it had not received when it made its last report.
        self._unreported: deque[tuple[int, int]] = deque()
        self._num_unreported_tokens = 0

    def send_request(self, request: TokenizedRequest) -> None:
        self.sender.send(request)
        self.num_open += 1
        self._num_sent += 1
        num_tokens = len(request.input_ids) // _BYTES_PER_TOKEN
        self._unreported.append((self._num_sent, num_tokens))
        self._num_unreported_tokens += num_tokens

    def on_report(self, report: SchedulerLoad, now: float) -> None:
        self.last_report = now
        self._capacity = report.max_total_num_tokens
        self._num_reported_tokens = report.num_used_tokens + report.num_waiting_uncached_tokens
        while self._unreported and self._unreported[0][0] <= report.num_received:
            self._num_unreported_tokens -= self._unreported.popleft()[1]

    def load(self) -> ReplicaLoad:
        return ReplicaLoad(
            dp_rank=self.dp_rank,
            num_requests=self.num_open,
            num_tokens=self._num_reported_tokens + self._num_unreported_tokens,
            capacity=self._capacity,
        )


class DataParallelController:
    """Each message to where it belongs. One that hears nothing of a replica for long sends others its requests."""

    def __init__(
        self,
        senders: Sequence[ReplicaSender],
        detokenizer: DetokenizerSender,
        policy: DispatchPolicy,
        *,
        silence_limit_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        now = clock()
        self._replicas = {rank: _Replica(rank, sender, now) for rank, sender in enumerate(senders)}
        self._detokenizer = detokenizer
        self._policy = policy
        self._silence_limit_s = silence_limit_s
        self._clock = clock
        self._owners: dict[RequestId, int] = {}
        self._lost: dict[int, str] = {}
        self.is_shut_down = False

    @property
    def num_open(self) -> int:
        """Requests that were sent on and have not ended."""
        return len(self._owners)

    def handle(self, message: ControllerInput) -> None:
        """Pass it on, or take note of it."""
        match message:
            case TokenizedRequest():
                self._dispatch(message)
            case AbortRequest(request_ids=request_ids):
                self._abort(request_ids)
            case RequestsEnded(request_ids=request_ids):
                self._forget(request_ids)
            case SchedulerLoad():
                replica = self._replicas.get(message.dp_rank)
                if replica is not None:
                    replica.on_report(message, self._clock())
            case FlushCache():
                # One that is busy refuses and keeps its prefixes. Then they are found anew, one prompt later.
                self._policy.forget_prefixes()
                self._send_to_all(message)
            case GetState() | DefineGrammar() | ForgetGrammar():
                self._send_to_all(message)
            case Shutdown():
                self._send_to_all(message)
                self.is_shut_down = True
            case ReplicaLost():
                self._lose(message)
            case _:
                assert_never(message)

    def _dispatch(self, request: TokenizedRequest) -> None:
        replica = self._replicas.get(self._rank_for(request))
        if replica is None:
            self._fail([request.request_id], self._why_lost(request.dp_rank))
            return
        self._policy.note_sent(request, replica.load())
        self._owners[request.request_id] = replica.dp_rank
        replica.send_request(request)

    def _rank_for(self, request: TokenizedRequest) -> int:
        if request.dp_rank is not None:
            return request.dp_rank
        if request.group_leader in self._owners:
            return self._owners[request.group_leader]  # where their prompt is
        if not self._replicas:
            return -1
        now = self._clock()
        audible = [r for r in self._replicas.values() if now - r.last_report <= self._silence_limit_s]
        return self._policy.choose(request, [r.load() for r in audible or self._replicas.values()])

    def _abort(self, request_ids: Iterable[RequestId]) -> None:
        by_owner: dict[int, list[RequestId]] = {}
        for request_id in request_ids:
            owner = self._owners.get(request_id)
            if owner is not None:  # it may just have ended
                by_owner.setdefault(owner, []).append(request_id)
        for owner, its_ids in by_owner.items():
            self._replicas[owner].sender.send(AbortRequest(request_ids=its_ids))

    def _forget(self, request_ids: Iterable[RequestId]) -> None:
        for request_id in request_ids:
            owner = self._owners.pop(request_id, None)
            if owner is not None:
                self._replicas[owner].num_open -= 1

    def _lose(self, message: ReplicaLost) -> None:
        if self._replicas.pop(message.dp_rank, None) is None:
            return
        self._lost[message.dp_rank] = message.reason
        self._policy.forget_prefixes(message.dp_rank)
        orphans = [request_id for request_id, owner in self._owners.items() if owner == message.dp_rank]
        for request_id in orphans:
            del self._owners[request_id]
        logger.error("replica %d is lost, and %d requests with it", message.dp_rank, len(orphans))
        self._fail(orphans, message.reason)
        self._detokenizer.send(Shutdown())  # in its place: it will not say so any more

    def _fail(self, request_ids: Sequence[RequestId], why: str) -> None:
        if not request_ids:
            return
        reason = FinishReason(type="abort", message=why, status_code=503)
        last_words = [
            RequestFinished(
                request_id=request_id, reason=reason, prompt_tokens=0, completion_tokens=0, cached_tokens=0
            )
            for request_id in request_ids
        ]
        self._detokenizer.send(TokenBatch(request_ids=[], num_tokens=[], token_ids=[], finished=last_words))

    def _why_lost(self, dp_rank: int | None) -> str:
        if dp_rank is None:
            return "no replica is left"
        return self._lost.get(dp_rank, f"there is no replica {dp_rank}")

    def _send_to_all(self, message: FlushCache | GetState | DefineGrammar | ForgetGrammar | Shutdown) -> None:
        for replica in self._replicas.values():
            replica.sender.send(message)
