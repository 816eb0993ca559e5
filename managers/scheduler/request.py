"""`Request`: one request's life inside the scheduler.

A request is a sequence of tokens, prompt and output, of which the first `num_computed` have KV; a step
computes some more. When all are computed, the step also samples the next. That is all there is to prefill,
chunked prefill, decode and going on after a retraction.

    waiting ──► running ──► finished          (each arrow into "finished" may also be an abort)
       ▲───────────┘ retracted
"""

import enum
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from managers.messages.base import RequestId
from managers.scheduler.finish import FinishRules
from managers.scheduler.logprob_keeper import LogprobKeeper
from managers.scheduler.seen_tokens import SeenTokens
from managers.scheduler.stop_strings import StopStrings
from mem_cache.prefix_cache import Namespace, PrefixNode, TokenIds
from srt.constrained.answer_grammar import AnswerGrammar
from srt.observability.request_timing import SchedulerTiming
from srt.sampling.params import SamplingParams

PrefixKey = tuple[Namespace, bytes]
# Higher than any urgency that a client can ask for.
MOST_URGENT = 2**62
# Of a health check: before even those who were overtaken too often.
PROBE_URGENCY = MOST_URGENT + 1

# As many of the prompt's last tokens as a decoder may want to see; a few are enough for any tokenizer.
PROMPT_TAIL_LEN = 8


def tail_of(prompt_ids: TokenIds) -> list[int]:
    """The last few ids of a prompt."""
    tail: list[int] = prompt_ids[-PROMPT_TAIL_LEN:].tolist()
    return tail


class Stage(enum.Enum):
    """Where a request is."""

    WAITING = enum.auto()
    RUNNING = enum.auto()
    FINISHED = enum.auto()


@dataclass(slots=True, eq=False, kw_only=True)
class Holding:
    """KV that one request holds; only request_memory.py changes it.

    `row` of the request table lists all `num_slots` of them. The first `num_shared` are the prefix cache's, kept
    by one lock on `node`; the rest are the request's own.
    """

    row: int
    node: PrefixNode
    num_shared: int
    num_slots: int
    last_slot: int = 0  # of the request's own; matters only inside a page


@dataclass(frozen=True, slots=True, eq=False)
class Sibling:
    """Another request that is about to compute, as its first `num_tokens`, what somebody waits for."""

    request: "Request"
    num_tokens: int

    @property
    def is_computing(self) -> bool:
        """Whether it still does."""
        return self.request.stage is Stage.RUNNING and self.request.num_computed < self.num_tokens


@dataclass(slots=True, eq=False, kw_only=True)
class Request:
    """One prompt and its growing answer. `arrival` numbers the requests of a scheduler, and breaks every tie."""

    id: RequestId
    arrival: int
    prompt_ids: TokenIds
    sampling: SamplingParams
    rules: FinishRules
    stream: bool
    namespace: Namespace = ()
    urgency: int = 0  # higher goes first; 0 for everybody without priority scheduling
    leader: "Request | None" = None  # whose prompt is the same; None also when it need not be waited for
    prefix_key: PrefixKey | None = None  # equal for all whose prompts begin alike; None: it shares nothing
    seen_tokens: SeenTokens | None = None
    stop_strings: StopStrings | None = None
    banned_ids: npt.NDArray[np.int64] | None = None  # before min_new_tokens
    grammar: AnswerGrammar | None = None
    is_greedy: bool = False  # it takes the likeliest tokens as the model has them, and asks for nothing else
    priority: int = 0  # higher is more urgent
    logprobs: LogprobKeeper | None = None  # for those few that want to know
    is_probe: bool = False  # a health check of one token, for which a place is kept

    stage: Stage = Stage.WAITING
    output_ids: list[int] = field(default_factory=list)
    num_computed: int = 0  # from the moment that a step is planned which computes them
    num_pending: int = 0  # tokens that steps in flight will bring
    holding: Holding | None = None
    has_computed_prompt: bool = False  # once true it stays true, retracted or not
    num_cached_tokens: int | None = None  # of the prompt, when it was first admitted
    num_shared_counted: int = 0  # tokens for which it counts as a user of the prefix cache
    num_expected_cached: int = 0  # an estimate while it waits, for load figures
    num_retractions: int = 0
    num_overtaken: int = 0  # requests that arrived later and were admitted earlier
    num_preempted: int = 0  # of `num_retractions`, for the sake of a more urgent one
    is_aged: bool = False  # overtaken or preempted too often: nobody is more urgent any more
    lot: float = 0.0  # its number in a random order
    arrived_at: float = 0.0  # by the tick's clock, as the next one; for people, nothing is decided by them
    admitted_at: float | None = None  # for the first time
    first_token_at: float | None = None
    sibling: "Sibling | None" = None  # who computes a prefix that this request waits for
    num_emitted: int = 0  # output tokens sent on
    is_opened: bool = False  # whether the detokenizer knows it

    @property
    def standing(self) -> int:
        """How urgent it is by now."""
        return MOST_URGENT if self.is_aged else self.urgency

    @property
    def prompt_len(self) -> int:
        """Tokens of the prompt."""
        return len(self.prompt_ids)

    @property
    def num_output(self) -> int:
        """Tokens generated so far."""
        return len(self.output_ids)

    @property
    def num_tokens(self) -> int:
        """Known tokens: prompt and output."""
        return len(self.prompt_ids) + len(self.output_ids)

    @property
    def num_matchable(self) -> int:
        """How many of its first tokens may be taken from the cache.

        Never the last known one, whose logits give the next; nor those whose logits tell the prompt's logprobs.
        """
        num_tokens = self.num_tokens - 1
        num_skippable = self.logprobs.num_skippable if self.logprobs is not None else None
        return num_tokens if num_skippable is None else min(num_tokens, num_skippable)

    @property
    def num_uncomputed(self) -> int:
        """Tokens without KV, pending ones included."""
        return len(self.prompt_ids) + len(self.output_ids) + self.num_pending - self.num_computed

    @property
    def num_tokens_left(self) -> int:
        """Tokens it may still generate beyond the pending ones."""
        return self.rules.max_new_tokens - len(self.output_ids) - self.num_pending

    @property
    def awaits_last_token(self) -> bool:
        """Whether its last token is pending: then no step can do anything for it."""
        return self.num_pending > 0 and self.num_tokens_left <= 0

    def begin_step(self, num_tokens: int, *, samples: bool) -> None:
        """A step that computes `num_tokens` more is on its way; `samples`: and brings the next token."""
        self.num_computed += num_tokens
        self.num_pending += samples

    @property
    def waits_for_leader(self) -> bool:
        """Whether another request is about to compute this one's prompt."""
        leader = self.leader
        return leader is not None and leader.stage is not Stage.FINISHED and not leader.has_computed_prompt

    def token_ids(self, start: int, stop: int) -> TokenIds:
        """The known tokens [start, stop)."""
        prompt_len = len(self.prompt_ids)
        if stop <= prompt_len:
            return self.prompt_ids[start:stop]
        output = np.array(self.output_ids[max(start - prompt_len, 0) : stop - prompt_len], np.int32)
        return np.concatenate([self.prompt_ids[start:], output]) if start < prompt_len else output

    def token_at(self, position: int) -> int:
        """One known token."""
        prompt_len = len(self.prompt_ids)
        return (
            self.output_ids[position - prompt_len]
            if position >= prompt_len
            else int(self.prompt_ids[position])
        )

    def timing(self, now: float) -> SchedulerTiming:
        """Where its time went, if it ends now."""
        if self.admitted_at is None:
            return SchedulerTiming(self.arrived_at, now - self.arrived_at)
        queue_s = self.admitted_at - self.arrived_at
        if self.first_token_at is None:
            return SchedulerTiming(self.arrived_at, queue_s, now - self.admitted_at)
        prefill_s = self.first_token_at - self.admitted_at
        return SchedulerTiming(self.arrived_at, queue_s, prefill_s, now - self.first_token_at)

    @property
    def prompt_tail(self) -> list[int]:
        """The prompt's last few ids, for whoever decodes the answer."""
        return tail_of(self.prompt_ids)

    def append(self, token_id: int) -> None:
        """One more output token, which is pending no longer."""
        self.num_pending -= 1
        self.output_ids.append(token_id)
        if self.seen_tokens is not None:
            self.seen_tokens.add(token_id)
