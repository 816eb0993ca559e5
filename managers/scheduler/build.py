"""`build_scheduler`: one rank's scheduler out of its parts, the model and the sockets being given."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from managers.scheduler.control import Facts
from managers.scheduler.deadlines import Deadlines
from managers.scheduler.decision_digest import DecisionDigest
from managers.scheduler.decode_reserve import DecodeReserve
from managers.scheduler.forward_thread import HereAndNow, InThread
from managers.scheduler.grammars import Grammars
from managers.scheduler.intake import RequestIntake
from managers.scheduler.logprob_teller import LogprobTeller
from managers.scheduler.output_builder import OutputBuilder
from managers.scheduler.priorities import NO_PRIORITIES, PriorityRules
from managers.scheduler.queue_limit import QueueLimit
from managers.scheduler.request_memory import RequestMemory
from managers.scheduler.scheduler import Outbox, Scheduler, TokenSampler
from managers.scheduler.stats import StatsKeeper
from managers.scheduler.step_planner import StepPlanner
from managers.scheduler.waiting_queue import WaitingQueue
from mem_cache.build import KVMemory, build_kv_memory
from srt.constrained.grammar import GrammarLoader
from srt.forward_batch import Runner
from srt.tokenizer.tokenizer import Tokenizer

# Unless the user says otherwise: requests that decode at once, by the tokens of KV there are for each.
MOST_RUNNING_REQUESTS = 256
TOKENS_PER_RUNNING_REQUEST = 64


def resolve_max_running_requests(asked: int | None, capacity: int) -> tuple[int, str]:
    """How many requests may run at once in a KV pool of `capacity` tokens, and why."""
    if asked is not None:
        return min(asked, capacity), "as asked" if asked <= capacity else "as many as the KV cache has tokens"
    by_memory = max(capacity // TOKENS_PER_RUNNING_REQUEST, 1)
    return min(by_memory, MOST_RUNNING_REQUESTS), (
        f"one for every {TOKENS_PER_RUNNING_REQUEST} tokens of KV cache, at most {MOST_RUNNING_REQUESTS}"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerSettings:
    """Everything that was decided for the scheduler. The same on every rank."""

    vocab_size: int
    eos_token_ids: tuple[int, ...]
    context_length: int
    capacity: int  # tokens of KV
    page_size: int = 1
    use_radix_cache: bool = True
    eviction_policy: str = "lru"
    chunk_size: int = 512
    max_running_requests: int = 64
    max_queued_requests: int | None = None
    policy: str = "fcfs"
    policy_seed: int = 0
    conservativeness: float = 1.0
    priorities: PriorityRules = NO_PRIORITIES
    waiting_timeout_s: float | None = None
    running_timeout_s: float | None = None
    stream_interval: int = 1
    decode_log_interval: int = 40
    overlaps: bool = False

    @property
    def usable_capacity(self) -> int:
        """Tokens of KV in whole pages."""
        return self.capacity - self.capacity % self.page_size

    @property
    def length_limit(self) -> int:
        """The longest prompt and answer together."""
        return min(self.context_length, self.usable_capacity)


def build_scheduler(
    settings: SchedulerSettings,
    *,
    runner: Runner,
    sampler: TokenSampler,
    tokenizer: Tokenizer,
    outbox: Outbox,
    facts: Facts | None = None,
    is_talking: bool = True,
    make_loader: Callable[[], GrammarLoader] | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Scheduler:
    """An idle scheduler, whole. One rank of a group talks for all: it logs, and tells log-probabilities.

    By `clock` it only says how long things took.
    """
    digest = DecisionDigest()
    grammars = Grammars(make_loader, vocab_size=settings.vocab_size, token_text=tokenizer.token_bytes)
    memory = RequestMemory(lambda: _build_books(settings), digest)
    waiting = WaitingQueue(settings.policy, seed=settings.policy_seed)
    return Scheduler(
        intake=RequestIntake(
            vocab_size=settings.vocab_size,
            eos_token_ids=settings.eos_token_ids,
            length_limit=settings.length_limit,
            shares_prefixes=settings.use_radix_cache,
            priorities=settings.priorities,
            tokenizer=tokenizer,
            grammars=grammars,
        ),
        grammars=grammars,
        waiting=waiting,
        planner=StepPlanner(
            waiting=waiting,
            memory=memory,
            digest=digest,
            reserve=DecodeReserve(settings.conservativeness),
            chunk_size=settings.chunk_size,
            max_running_requests=settings.max_running_requests,
            preemption_threshold=settings.priorities.preemption_threshold,
        ),
        memory=memory,
        forward=InThread(runner) if settings.overlaps else HereAndNow(runner),
        overlaps=settings.overlaps,
        sampler=sampler,
        digest=digest,
        output=OutputBuilder(settings.stream_interval),
        outbox=outbox,
        keeper=StatsKeeper(settings.decode_log_interval if is_talking else None),
        facts=facts or {},
        queue_limit=QueueLimit(settings.max_queued_requests),
        deadlines=Deadlines(settings.waiting_timeout_s, settings.running_timeout_s),
        teller=LogprobTeller(is_talking=is_talking),
        clock=clock,
    )


def _build_books(settings: SchedulerSettings) -> KVMemory:
    return build_kv_memory(
        capacity=settings.capacity,
        page_size=settings.page_size,
        use_radix_cache=settings.use_radix_cache,
        eviction_policy=settings.eviction_policy,
        num_rows=settings.max_running_requests + 1,  # one for a health check, which waits for no place
        context_length=settings.length_limit,
    )
