"""`TokenizerManager`, the front actor: prompts in, token ids to the scheduler, chunks back to each caller.

Owns the way in and the way to ask: every choice of a request travels as a request of its own under a number that is
never used again. What is open, and what arrives for it, is `OpenRequests`'.
Next on the request's path: managers/data_parallel_controller.py
"""

import asyncio
import logging
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, assert_never

from managers.answer_meter import AnswerMeter
from managers.choice_plan import plan_choices
from managers.control_client import ControlClient
from managers.front_board import Figure
from managers.fronts import Fronts
from managers.grammar_desk import GrammarDesk, GrammarPorts, RequestedGrammar
from managers.messages.base import RequestId
from managers.messages.control import FlushCacheReply, GetStateReply, SchedulerLoad
from managers.messages.to_front import AbortByLabel
from managers.messages.to_scheduler import AbortRequest, SchedulerInput, TokenizedRequest
from managers.messages.to_tokenizer_manager import GrammarCompiled, TextBatch, TokenizerManagerInput
from managers.metric_collector import collect
from managers.open_requests import OpenRequests
from managers.pulses import PulseBoard
from managers.replica_board import ReplicaBoard
from managers.request_state import RequestState
from managers.tokenizer_pool import TokenizedPrompt, TokenizerPool
from srt.engine_client import FinishReason, GenerateRequest, Health, LoadSnapshot, ModelInfo, Prompt
from srt.errors import ServerNotReady
from srt.observability.exposition import Family
from srt.observability.front_counts import Count, FrontCounts
from srt.observability.request_timing import RequestTiming, begin_timing

logger = logging.getLogger(__name__)

# What the scheduler needs to end requests that it was told to abort.
ABORT_GRACE_S = 5.0
# What the scheduler says of a request that was aborted, said for it of one that it never got.
ABORTED = FinishReason(type="abort", message="aborted")
# The number of what was never sent anywhere.
NO_REQUEST: RequestId = 0


class MessageSender(Protocol):
    """The scheduler's socket, or that of the controller in front of several."""

    def send(self, message: SchedulerInput) -> None:
        """Queue one message; never blocks."""
        ...


class MessageReceiver(Protocol):
    """The main process's own socket."""

    async def receive(self) -> list[TokenizerManagerInput]:
        """Everything that has arrived, waiting for the first."""
        ...


class TokenizerManager:
    """Implements `EngineClient`. Works while `receive_forever()` runs.

    `model_info.context_length` is the longest prompt and answer together that this server takes.
    """

    def __init__(
        self,
        *,
        model_info: ModelInfo,
        pool: TokenizerPool,
        sender: MessageSender,
        receiver: MessageReceiver,
        watchdog_timeout_s: float,
        pulses: PulseBoard | None = None,
        replicas: ReplicaBoard | None = None,
        fronts: Fronts | None = None,
        grammar_ports: GrammarPorts | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.model_info = model_info
        self._pool = pool
        self._sender = sender
        self._receiver = receiver
        self._watchdog_timeout_s = watchdog_timeout_s
        self._clock = clock
        self._pulses = pulses or PulseBoard()
        self._replicas = replicas or ReplicaBoard()
        self._fronts = fronts or Fronts()
        self._control = ControlClient(
            sender.send, lambda: self._replicas.live_ranks, control_ids=self._fronts.place.new_ids()
        )
        self._request_ids = self._fronts.place.new_ids()
        self.counts = self._fronts.own_row.counts
        self._grammars = GrammarDesk(
            grammar_ports, sender.send, self._fronts.place.new_ids(), clock=clock, counts=self.counts
        )
        self._open = OpenRequests(send_abort=self._abort, meter=AnswerMeter(self.counts))
        self._is_draining = False
        self._failure: str | None = None  # why nothing can come from behind any more
        self._last_sign_of_life = clock()

    # For HTTP: see EngineClient for what each promises.

    async def generate(self, request: GenerateRequest) -> RequestState:
        """Render, tokenise, check and dispatch. Raises RequestError, and then nothing was dispatched."""
        if self._is_draining:
            raise ServerNotReady("the server is shutting down")
        timing = begin_timing(self._clock)
        for sampling in request.sampling:
            sampling.check_token_ids(self.model_info.vocab_size)
        self._replicas.check_rank(request.dp_rank)
        with self._open.arriving(request.rid or uuid.uuid4().hex, request.rids) as arrival:
            try:
                if request.complete is not None:
                    request = await request.complete(request)
                prompts, grammars = await self._prepare(request, timing)
            except asyncio.CancelledError:
                if not arrival.take_back_cancellation():
                    raise
                return self._aborted_before_dispatch(request, arrival.rid, timing)
            self._check_alive()
            state = self._dispatch(request, prompts, grammars, arrival.rid, timing)
        for rid in arrival.aborted_rids:
            self._open.abort(rid)
        return state

    async def tokenize(self, prompt: Prompt, *, add_special_tokens: bool = True) -> list[int]:
        """Token ids of a prompt."""
        return await self._pool.encode(prompt, add_special_tokens=add_special_tokens)

    async def detokenize(self, token_ids: Sequence[int], *, skip_special_tokens: bool = True) -> str:
        """Text of token ids."""
        return await self._pool.decode(token_ids, skip_special_tokens=skip_special_tokens)

    def token_bytes(self, token_id: int, *, skip_special_tokens: bool = False) -> bytes:
        """What one token is in the text."""
        return self._pool.token_bytes(token_id, skip_special_tokens=skip_special_tokens)

    def abort(self, rid: str) -> None:
        """End every live request with this exact rid, those that are still being tokenised among them."""
        self._open.abort(rid)
        self._fronts.tell_others(AbortByLabel(rid=rid))

    def abort_all(self) -> None:
        """End every live request, those that are still being tokenised among them."""
        self._open.abort_all()
        self._fronts.tell_others(AbortByLabel(rid=None))

    async def flush_cache(self, *, timeout_s: float = 0.0) -> str | None:
        """Forget cached prefixes. None, or why it was not done."""
        self._check_alive()
        return await self._control.flush_cache(timeout_s=timeout_s)

    async def server_states(self) -> Sequence[Mapping[str, Any]]:
        """Facts and figures of each replica's scheduler."""
        self._check_alive()
        return await self._control.get_states()

    def loads(self) -> Sequence[LoadSnapshot]:
        """The latest load of each replica; none before its first report."""
        return self._replicas.loads(self._clock())

    def worker_states(self) -> Sequence[Mapping[str, Any]]:
        """Figures of each process that serves HTTP."""
        return self._fronts.board.states()

    def all_counts(self) -> Sequence[FrontCounts]:
        """Of every process that serves HTTP."""
        return [row.counts for row in self._fronts.board.rows]

    def metrics(self) -> Sequence[Family]:
        """Of the whole engine."""
        reports, lost = self._replicas.reports(self._clock()), sorted(self._replicas.lost)
        return collect(self.model_info, self._fronts.board, reports, lost)

    def health(self) -> Health:
        """Whether new requests are taken, and every process has given a sign of life lately."""
        if self._failure is not None:
            return Health(ok=False, is_alive=False, detail=self._failure)
        silent = self._pulses.silent(self._watchdog_timeout_s)
        # What they say comes a long way: it may be lost though each process lives.
        silence_s = self._clock() - self._last_sign_of_life
        if not silent and silence_s > self._watchdog_timeout_s:
            silent = {"the scheduler": silence_s}
        if silent:
            names = ", ".join(f"{name} for {seconds:.0f} s" for name, seconds in silent.items())
            return Health(ok=False, is_alive=False, detail=f"no sign of life from {names}")
        if self._is_draining:
            return Health(ok=False, detail="the server is shutting down")
        detail = self._replicas.what_is_wrong(self._clock(), self._watchdog_timeout_s)
        return Health(ok=True, detail=detail)

    # For the process that owns this actor.

    @property
    def num_open(self) -> int:
        """Answers that have not had their last word."""
        return self._open.num_choices

    async def receive_forever(self) -> None:
        """Take messages from behind, until cancelled."""
        while True:
            for message in await self._receiver.receive():
                try:
                    self._on_message(message)
                except Exception:
                    # One bad message is one message: every other stream goes on. It may hold text, so it is not shown.
                    logger.exception("a %s could not be handled", type(message).__name__)
            await self._open.wake_callers()

    async def drain(self, timeout_s: float, *, hurry: asyncio.Event | None = None) -> None:
        """Take nothing new; let what runs finish for `timeout_s`, or until `hurry` is set; then end it."""
        self._is_draining = True
        if await self._open.wait_until_none(timeout_s, hurry):
            return
        logger.warning("%d answers did not finish in time and are cut off", self._open.num_choices)
        self._open.abort_all()
        if not await self._open.wait_until_none(ABORT_GRACE_S):
            self.fail_all("the server is shutting down")

    def abort_for_other_front(self, rid: str | None) -> None:
        """A client of another front wants these ended: by exact rid, or all."""
        if rid is None:
            self._open.abort_all()
        else:
            self._open.abort(rid)

    def fail_all(self, why: str) -> None:
        """Nothing can come from behind any more: end every open request with an error, and refuse new ones."""
        if self._failure is not None:
            return
        self._failure = why
        self._open.fail_all(lambda: ServerNotReady(why))
        self._control.fail_all(ServerNotReady(why))
        self._grammars.fail_all(ServerNotReady(why))

    def lose_replica(self, dp_rank: int, why: str) -> None:
        """This replica is gone, and `why` says why. Its requests are going to end with an error."""
        self._replicas.lose(dp_rank, why)
        self._control.on_replica_lost(dp_rank)

    def shut_down(self) -> None:
        """Tell every process behind us to end."""
        self._control.shut_down()

    def close(self) -> None:
        """Let go of the threads."""
        self._pool.close()

    # On the way in.

    async def _prepare(
        self, request: GenerateRequest, timing: RequestTiming
    ) -> tuple[Sequence[TokenizedPrompt], Sequence[RequestedGrammar | None]]:
        """Prompts as ids, and, meanwhile, their grammars compiled."""
        tokenizing = self._pool.tokenize(
            request.prompts, max_tokens=self.model_info.context_length, timing=timing
        )
        if not any(request.grammars):
            return await tokenizing, [None] * len(request.prompts)
        self.counts.add(Count.STRUCTURED_REQUESTS)
        compiling = asyncio.create_task(self._grammars.compile(request.grammars, request.timeout_s))
        try:
            return await tokenizing, await compiling
        finally:
            if not compiling.cancel() and not compiling.cancelled():
                compiling.exception()  # if there is one, the prompt's came first

    def _dispatch(
        self,
        request: GenerateRequest,
        prompts: Sequence[TokenizedPrompt],
        grammars: Sequence[RequestedGrammar | None],
        rid: str,
        timing: RequestTiming,
    ) -> RequestState:
        # All checks first: a request is dispatched whole or not at all.
        plans = [
            plan_choices(
                sampling, prompt_len=len(prompt.token_ids), context_length=self.model_info.context_length
            )
            for prompt, sampling in zip(prompts, request.sampling, strict=True)
        ]
        asked = request.logprobs or [None] * len(prompts)
        for prompt, logprobs in zip(prompts, asked, strict=True):
            if logprobs is not None:
                logprobs.check(prompt_len=len(prompt.token_ids), vocab_size=self.model_info.vocab_size)
        state = RequestState(
            rid,
            [prompt.token_ids for prompt in prompts],
            timing=timing,
            send_abort=self._abort,
            rids=request.rids,
            is_streaming=request.stream,
        )
        messages: list[TokenizedRequest] = []
        for prompt, choices, logprobs, grammar in zip(prompts, plans, asked, grammars, strict=True):
            named = None if grammar is None else self._grammars.name(grammar)
            leader: RequestId | None = None
            for sampling in choices:
                request_id = next(self._request_ids)
                state.add_choice(request_id, index=len(state.choices), prompt_tokens=len(prompt.token_ids))
                messages.append(
                    TokenizedRequest(
                        request_id=request_id,
                        input_ids=prompt.packed,
                        sampling=sampling,
                        stream=request.stream,
                        group_leader=leader,
                        namespace=request.namespace,
                        priority=request.priority,
                        timeout_s=request.timeout_s,
                        dp_rank=request.dp_rank,
                        logprobs=logprobs,
                        grammar=named,
                        is_probe=request.is_probe,
                    )
                )
                leader = leader or request_id
        self._open.add(state)
        self._fronts.own_row[Figure.OPEN_ANSWERS] = self._open.num_choices
        for message in messages:
            self._sender.send(message)
        timing.note_dispatched()
        return state

    def _aborted_before_dispatch(
        self, request: GenerateRequest, rid: str, timing: RequestTiming
    ) -> RequestState:
        """What the client gets at once, though a thread may still be busy with its prompt."""
        state = RequestState(rid, [[] for _ in request.prompts], timing=timing, send_abort=self._abort)
        for index in range(sum(sampling.n for sampling in request.sampling)):
            state.add_choice(NO_REQUEST, index=index, prompt_tokens=0)
        state.end_before_dispatch(ABORTED)
        return state

    # On the way out.

    def _on_message(self, message: TokenizerManagerInput) -> None:
        if isinstance(message, GrammarCompiled):  # no sign of the scheduler's life
            self._grammars.on_compiled(message)
            return
        self._last_sign_of_life = self._clock()
        match message:
            case TextBatch():
                self._on_text(message)
            case SchedulerLoad():
                self._replicas.on_load(message, self._last_sign_of_life)
            case FlushCacheReply() | GetStateReply():
                self._control.on_reply(message)
            case _:
                assert_never(message)

    def _on_text(self, batch: TextBatch) -> None:
        self._open.deliver(batch, self._last_sign_of_life)
        if batch.finished:
            self._replicas.on_ended([finished.request_id for finished in batch.finished])
            row = self._fronts.own_row
            row[Figure.OPEN_ANSWERS] = self._open.num_choices
            row[Figure.COALESCED_CHUNKS] = self._open.num_coalesced_chunks

    def _abort(self, request_ids: list[RequestId]) -> None:
        if request_ids and self._failure is None:
            self._sender.send(AbortRequest(request_ids=request_ids))

    def _check_alive(self) -> None:
        if self._failure is not None:
            raise ServerNotReady(self._failure)
