"""A small world: one scheduler with the fake model and the real sampler, driven turn by turn."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from managers.messages import (
    AbortRequest,
    DefineGrammar,
    DetokenizerInput,
    ForgetGrammar,
    RequestFinished,
    RequestGrammar,
    RequestLogprobs,
    RequestOpened,
    SchedulerInput,
    SchedulerLoad,
    TokenBatch,
    TokenizedRequest,
    pack_token_ids,
)
from managers.scheduler.build import SchedulerSettings, build_scheduler
from managers.scheduler.invariants import find_violations
from managers.scheduler.scheduler import Scheduler, Turn
from managers.scheduler.stats import SchedulerStats
from mem_cache.page_math import round_up
from srt.engine_client import LogprobOptions, Logprobs
from srt.forward_batch import Runner
from srt.sampling.params import SamplingParams
from srt.sampling.sampler import Sampler
from tests.fakes.channel import FakeChannel
from tests.fakes.clock import FakeClock
from tests.fakes.grammars import FakeGrammarLoader
from tests.fakes.model_runner import FakeModelRunner
from tests.fakes.tokenizer import EOS_ID, VOCAB_SIZE, ByteTokenizer
from tests.managers.scheduler.solo import Answer, SoloGrammar

SETTINGS = SchedulerSettings(
    vocab_size=VOCAB_SIZE, eos_token_ids=(EOS_ID,), context_length=1000, capacity=256, max_running_requests=8
)


def greedy(max_new_tokens: int | None = 8, **changes: object) -> SamplingParams:
    return SamplingParams(max_new_tokens=max_new_tokens, temperature=0.0, seed=1, **changes)  # type: ignore[arg-type]


@dataclass
class Heard:
    """What the detokenizer was told about one request."""

    opened: RequestOpened | None = None
    token_ids: list[int] = field(default_factory=list)
    pieces: list[int] = field(default_factory=list)  # tokens of each message
    finished: RequestFinished | None = None
    logprobs: Logprobs | None = None
    prompt_logprobs: Logprobs | None = None

    @property
    def answer(self) -> Answer:
        assert self.finished is not None, "the request was never finished"
        end = self.finished
        return Answer(
            self.token_ids, end.reason.type, end.reason.matched, end.text_end, end.num_trimmed_tokens
        )


class World:
    """Checks the books after every turn, and that every message about a request is in order."""

    def __init__(
        self,
        settings: SchedulerSettings = SETTINGS,
        *,
        is_talking: bool = True,
        real_runner: Runner | None = None,
        **changes: object,
    ) -> None:
        self.is_talking = is_talking
        self.settings = replace(settings, **changes)  # type: ignore[arg-type]
        self.clock = FakeClock()
        self.outbox: FakeChannel[DetokenizerInput] = FakeChannel()
        self.runner = FakeModelRunner(self.settings.capacity + self.settings.page_size)
        self.scheduler: Scheduler = build_scheduler(
            self.settings,
            runner=real_runner or self.runner,
            sampler=Sampler(self.settings.vocab_size),
            tokenizer=ByteTokenizer(),
            outbox=self.outbox,
            is_talking=is_talking,
            make_loader=lambda: FakeGrammarLoader(self.settings.vocab_size),
            clock=self.clock,
        )
        self.heard: dict[int, Heard] = {}
        self.ended: list[int] = []  # requests in the order of their ends
        self.loads: list[SchedulerLoad] = []
        self.replies: list[DetokenizerInput] = []
        self._inbox: list[SchedulerInput] = []
        self._num_requests = 0
        self._num_grammars = 0

    def add(
        self,
        prompt_ids: Sequence[int] | str,
        sampling: SamplingParams | None = None,
        *,
        stream: bool = True,
        leader: int | None = None,
        namespace: tuple[str, ...] = (),
        priority: int | None = None,
        timeout_s: float | None = None,
        logprobs: LogprobOptions | None = None,
        grammar: SoloGrammar | None = None,
        is_probe: bool = False,
    ) -> int:
        self._num_requests += 1
        ids = list(prompt_ids.encode()) if isinstance(prompt_ids, str) else list(prompt_ids)
        self.send(
            TokenizedRequest(
                request_id=self._num_requests,
                input_ids=pack_token_ids(ids),
                sampling=sampling or greedy(),
                stream=stream,
                group_leader=leader,
                namespace=namespace,
                priority=priority,
                timeout_s=timeout_s,
                logprobs=logprobs,
                grammar=None if grammar is None else self._defined(grammar),
                is_probe=is_probe,
            )
        )
        if grammar is not None:
            self.send(ForgetGrammar(grammar_id=self._num_grammars))
        return self._num_requests

    def _defined(self, grammar: SoloGrammar) -> RequestGrammar:
        """Under a new number, as from a front that keeps none."""
        self._num_grammars += 1
        self.send(DefineGrammar(grammar_id=self._num_grammars, payload=grammar.rule.payload()))
        return RequestGrammar(grammar_id=self._num_grammars, begins_after=grammar.begins_after)

    def abort(self, *request_ids: int) -> None:
        self.send(AbortRequest(request_ids=list(request_ids)))

    def send(self, message: SchedulerInput) -> None:
        self._inbox.append(message)

    def step(self) -> Turn:
        messages, self._inbox = self._inbox, []
        self.clock.advance(0.01)
        turn = self.scheduler.plan_turn(self.clock(), messages)
        self.scheduler.run_turn(turn)
        self.listen()
        self.check_books()
        return turn

    def run(self, max_steps: int = 5000) -> None:
        self.step()
        for _ in range(max_steps):
            if self.scheduler.is_idle and not self._inbox:
                return
            was_in_flight = self.scheduler.is_in_flight
            turn = self.step()
            assert turn.batch is not None or was_in_flight or self.scheduler.is_idle, (
                "somebody waits, but nothing runs"
            )
        raise AssertionError(f"not idle after {max_steps} steps: {self.stats()}")

    def stats(self) -> SchedulerStats:
        return self.scheduler.stats()

    def answer(self, request_id: int) -> Answer:
        return self.heard[request_id].answer

    def finish(self, request_id: int) -> RequestFinished:
        finished = self.heard[request_id].finished
        assert finished is not None, f"request {request_id} was never finished"
        return finished

    def check_books(self) -> None:
        memory, running = self.scheduler._memory, self.scheduler.running
        stats = memory.stats()
        own = sum(round_up(len(memory.own_slots(request)), memory.page_size) for request in running)
        assert stats.num_free + stats.num_evictable + stats.num_protected + own == stats.capacity, stats
        scheduler_stats = self.stats()
        if (
            self.scheduler.is_idle or scheduler_stats.turn % 4 == 0
        ):  # looks at every slot, so it takes a while
            violations = find_violations(memory, running)
            assert not violations, violations
        assert scheduler_stats.num_ledger_repairs == 0
        num_places = self.settings.max_running_requests + any(request.is_probe for request in running)
        assert len(running) <= num_places

    def listen(self) -> None:
        for message in self.outbox.take():
            if not self.is_talking:
                continue  # nobody hears it
            match message:
                case TokenBatch():
                    self._listen_to_batch(message)
                case SchedulerLoad():
                    self.loads.append(message)
                case _:
                    self.replies.append(message)

    def _listen_to_batch(self, batch: TokenBatch) -> None:
        assert batch.request_ids or batch.finished, "a message without news"
        for opened in batch.opened:
            heard = self.heard.setdefault(opened.request_id, Heard())
            assert heard.opened is None, "opened twice"
            heard.opened = opened
        position = 0
        for request_id, num_tokens in zip(batch.request_ids, batch.num_tokens, strict=True):
            heard = self.heard[request_id]
            assert heard.opened is not None, "tokens before the opening"
            assert heard.finished is None, "tokens after the end"
            assert num_tokens > 0
            heard.token_ids.extend(batch.token_ids[position : position + num_tokens])
            heard.pieces.append(num_tokens)
            position += num_tokens
        assert position == len(batch.token_ids)
        for told in batch.logprobs:
            self._listen_to_logprobs(told)
        for finished in batch.finished:
            heard = self.heard.setdefault(finished.request_id, Heard())
            assert heard.finished is None, "finished twice"
            assert finished.completion_tokens == len(heard.token_ids)
            assert heard.logprobs is None or heard.logprobs.token_ids == heard.token_ids
            heard.finished = finished
            self.ended.append(finished.request_id)

    def _listen_to_logprobs(self, told: RequestLogprobs) -> None:
        heard = self.heard.setdefault(told.request_id, Heard())
        assert heard.finished is None, "logprobs after the end"
        if heard.logprobs is None:
            heard.logprobs = told.output
        else:
            heard.logprobs.extend(told.output)
        assert heard.logprobs.token_ids == heard.token_ids, "logprobs of other tokens than came"
        if told.prompt is not None:
            assert heard.prompt_logprobs is None, "the prompt was told twice"
            heard.prompt_logprobs = told.prompt
