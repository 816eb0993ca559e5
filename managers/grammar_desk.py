"""`GrammarDesk`: a front's grammars: checked, compiled once, defined at the scheduler once, forgotten in the end.

A grammar is compiled before the request that wants it is dispatched, so a bad one is that request's 400 and nobody else
hears of it. What was found to be bad is remembered for a while, and what was compiled as long as there is room.
"""

import asyncio
import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from managers.messages.to_grammar_compiler import CancelCompile, CompileGrammar, GrammarCompilerInput
from managers.messages.to_scheduler import DefineGrammar, ForgetGrammar, RequestGrammar
from managers.messages.to_tokenizer_manager import GrammarCompiled
from srt.constrained.grammar_check import checked
from srt.constrained.grammar_spec import GrammarSpec
from srt.errors import InvalidRequest, QueueFull, RequestError, RequestFailed, ServerNotReady
from srt.observability.front_counts import Count, FrontCounts
from srt.util.patience import patience

MAX_KEPT_BYTES, MAX_KEPT = 64 * 1024 * 1024, 512
MAX_REFUSED, REFUSED_FOR_S = 256, 300.0
MAX_WAITING = 256
# For the compiler to start, on a busy machine, and to get through those before.
PATIENCE_S = 120.0
ASK_AGAIN_S = 2.0
# Looking through a longer one would hold up the event loop.
LONGEST_CHECKED_HERE = 4096

Key = tuple[str, bytes]


@dataclass(eq=False, slots=True)
class CompiledGrammar:
    """`grammar_id`: under which the scheduler knows it; None: it does not."""

    key: Key
    payload: bytes
    grammar_id: int | None = None


@dataclass(frozen=True, slots=True)
class RequestedGrammar:
    """A grammar, and behind which text it begins in this request's answer."""

    compiled: CompiledGrammar
    begins_after: str | None


@dataclass(eq=False, slots=True)
class _Job:
    """One grammar that is being compiled, and those who wait for it."""

    key: Key
    kind: str
    done: asyncio.Future[CompiledGrammar]
    begun_at: float
    waiters: set[object] = field(default_factory=set)


@dataclass(frozen=True, kw_only=True)
class GrammarPorts:
    """How a desk reaches the compiler. `wake` starts it if it does not run."""

    compiler: Callable[[GrammarCompilerInput], None]
    wake: Callable[[], None]


class GrammarDesk:
    """`ports` None: this server has no grammars. `new_ids` are numbers that no other front uses."""

    def __init__(
        self,
        ports: GrammarPorts | None,
        tell_scheduler: Callable[[DefineGrammar | ForgetGrammar], None],
        new_ids: Iterator[int],
        *,
        max_kept_bytes: int = MAX_KEPT_BYTES,
        clock: Callable[[], float] = time.monotonic,
        counts: FrontCounts | None = None,
    ) -> None:
        self._max_kept_bytes = max_kept_bytes
        self._ports = ports
        self._counts = counts or FrontCounts.private()
        self._tell_scheduler = tell_scheduler
        self._new_ids = new_ids
        self._clock = clock
        self._kept: OrderedDict[Key, CompiledGrammar] = OrderedDict()
        self._num_kept_bytes = 0
        self._refused: OrderedDict[Key, tuple[str, float]] = OrderedDict()
        self._jobs: dict[int, _Job] = {}
        self._job_by_key: dict[Key, int] = {}

    async def compile(
        self, specs: Sequence[GrammarSpec | None], timeout_s: float | None = None
    ) -> list[RequestedGrammar | None]:
        """Each of them, compiled. Raises RequestError; leaves at once when it is cancelled."""
        distinct = {_key(spec): spec for spec in specs if spec is not None}
        limit_s = PATIENCE_S if timeout_s is None else min(timeout_s, PATIENCE_S)
        compiled: dict[Key, CompiledGrammar] = {}
        try:
            async with patience(limit_s):
                for key, spec in distinct.items():
                    compiled[key] = await self._one(key, spec)
        except TimeoutError:
            if limit_s != PATIENCE_S:
                raise RequestFailed(f"the request took longer than {limit_s:g} s", status=504) from None
            raise ServerNotReady("the grammar compiler does not answer") from None
        return [
            None if spec is None else RequestedGrammar(compiled[_key(spec)], spec.begins_after)
            for spec in specs
        ]

    def name(self, requested: RequestedGrammar) -> RequestGrammar:
        """What a request that is dispatched right after this says of its grammar. Defines it first if need be."""
        grammar = requested.compiled
        if grammar.grammar_id is None:
            grammar.grammar_id = next(self._new_ids)
            self._tell_scheduler(DefineGrammar(grammar_id=grammar.grammar_id, payload=grammar.payload))
        self._keep(grammar)
        return RequestGrammar(grammar_id=grammar.grammar_id, begins_after=requested.begins_after)

    def on_compiled(self, message: GrammarCompiled) -> None:
        """The compiler answers."""
        job = self._jobs.pop(message.job_id, None)
        if job is None:  # everybody has left
            return
        del self._job_by_key[job.key]
        self._counts.grammar_compilation.observe(self._clock() - job.begun_at)
        if message.error:
            self._refused[job.key] = message.error, self._clock() + REFUSED_FOR_S
            while len(self._refused) > MAX_REFUSED:
                self._refused.popitem(last=False)
            error = InvalidRequest(message.error, param=job.kind)
            job.done.set_exception(error)
            job.done.exception()  # somebody may have left in this very moment
            return
        compiled = CompiledGrammar(job.key, message.payload)
        self._keep(compiled)
        self._make_room()
        job.done.set_result(compiled)

    def fail_all(self, error: RequestError) -> None:
        """Nothing can be served any more: whoever waits gets this error."""
        for job in self._jobs.values():
            job.done.set_exception(error)
            job.done.exception()
        self._jobs.clear()
        self._job_by_key.clear()

    async def _one(self, key: Key, spec: GrammarSpec) -> CompiledGrammar:
        if self._ports is None:
            raise InvalidRequest("this server was started without grammars", param=spec.kind)
        self._counts.add(Count.GRAMMARS_ASKED)
        self._check_not_refused(key, spec)
        kept = self._kept.get(key)
        if kept is not None:
            self._counts.add(Count.GRAMMARS_FOUND)
            return kept
        if key not in self._job_by_key:
            # Looked through before it is a job, and looked up again: another may have been quicker.
            ready = (
                checked(spec)
                if len(spec.text) <= LONGEST_CHECKED_HERE
                else await asyncio.to_thread(checked, spec)
            )
            if key not in self._job_by_key:
                self._begin(key, ready, self._ports)
        return await self._wait(self._job_by_key[key])

    def _begin(self, key: Key, spec: GrammarSpec, ports: GrammarPorts) -> None:
        if len(self._jobs) >= MAX_WAITING:
            raise QueueFull("too many grammars wait to be compiled")
        job_id = next(self._new_ids)
        self._jobs[job_id] = _Job(key, spec.kind, asyncio.get_running_loop().create_future(), self._clock())
        self._job_by_key[key] = job_id
        self._ask(ports, CompileGrammar(job_id=job_id, kind=spec.kind, text=spec.text))

    def _ask(self, ports: GrammarPorts, message: CompileGrammar) -> None:
        """Ask until there is an answer: what a compiler had that died, the next one must hear of."""
        if message.job_id not in self._jobs:
            return
        ports.wake()
        ports.compiler(message)
        asyncio.get_running_loop().call_later(ASK_AGAIN_S, self._ask, ports, message)

    async def _wait(self, job_id: int) -> CompiledGrammar:
        job, me = self._jobs[job_id], object()
        job.waiters.add(me)
        self._counts.add(Count.GRAMMARS_WAITED_FOR)
        try:
            return await asyncio.shield(job.done)
        except InvalidRequest as error:
            self._counts.add(Count.GRAMMARS_REFUSED)
            # One each: they are on their way to different clients.
            raise InvalidRequest(error.message, param=error.param) from None
        finally:
            job.waiters.discard(me)
            self._counts.add(Count.GRAMMARS_WAITED_FOR, -1)
            if not job.waiters and not job.done.done():
                self._cancel(job_id, job)

    def _cancel(self, job_id: int, job: _Job) -> None:
        """Nobody waits for it any more."""
        del self._jobs[job_id]
        del self._job_by_key[job.key]
        job.done.cancel()
        if self._ports is not None:
            self._ports.compiler(CancelCompile(job_id=job_id))

    def _check_not_refused(self, key: Key, spec: GrammarSpec) -> None:
        error, until = self._refused.get(key, ("", 0.0))
        if error and self._clock() < until:
            self._counts.add(Count.GRAMMARS_REFUSED)
            raise InvalidRequest(error, param=spec.kind)

    def _keep(self, grammar: CompiledGrammar) -> None:
        """Keep it longest of all."""
        if self._kept.get(grammar.key) is not grammar:
            other = self._kept.pop(grammar.key, None)
            if other is not None:
                self._let_go(other)
            self._kept[grammar.key] = grammar
            self._num_kept_bytes += len(grammar.payload)
        self._kept.move_to_end(grammar.key)

    def _make_room(self) -> None:
        """Let go of those that were not wanted for longest. Never while a request is being dispatched."""
        while len(self._kept) > 1 and (
            len(self._kept) > MAX_KEPT or self._num_kept_bytes > self._max_kept_bytes
        ):
            self._let_go(self._kept.popitem(last=False)[1])

    def _let_go(self, grammar: CompiledGrammar) -> None:
        self._num_kept_bytes -= len(grammar.payload)
        if grammar.grammar_id is not None:
            # On the same socket as the requests that named it, behind them.
            self._tell_scheduler(ForgetGrammar(grammar_id=grammar.grammar_id))
            grammar.grammar_id = None


def _key(spec: GrammarSpec) -> Key:
    # Short, whatever was sent. What it begins after is the request's affair.
    return spec.kind, hashlib.blake2b(spec.text.encode(errors="surrogatepass"), digest_size=16).digest()
