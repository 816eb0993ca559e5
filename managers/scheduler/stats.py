"""`SchedulerStats`, a frozen snapshot for logs, load reports and tests; `StatsKeeper`, which counts towards it.

Time comes from the tick, so every rank counts the same.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from managers.messages import SchedulerLoad
from managers.messages.figures import SchedulerFigures
from managers.scheduler.batch import Batch
from managers.scheduler.request import Request
from managers.scheduler.request_memory import MemoryStats
from managers.scheduler.work_counts import WorkCounts

logger = logging.getLogger(__name__)

# Load figures are sent when requests came or went, but not more often, and at least so often.
LEAST_LOAD_INTERVAL_S = 0.1
MOST_LOAD_INTERVAL_S = 0.9
THROUGHPUT_WINDOW_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerStats:
    """How things are, between two turns."""

    turn: int
    num_running: int
    num_waiting: int
    num_waiting_uncached_tokens: int
    memory: MemoryStats
    max_running_requests: int
    gen_throughput: float  # tokens a second, over about the last second of work
    cache_hit_rate: float  # of all prompt tokens so far, how many were cached
    num_finished: int
    num_retractions: int
    num_ledger_repairs: int

    def as_load(self, figures: SchedulerFigures, dp_rank: int = 0) -> SchedulerLoad:
        """The message, with what was done until now."""
        return SchedulerLoad(
            dp_rank=dp_rank,
            num_running=self.num_running,
            num_waiting=self.num_waiting,
            num_waiting_uncached_tokens=self.num_waiting_uncached_tokens,
            num_used_tokens=self.memory.num_used,
            num_cached_tokens=self.memory.num_cached,
            max_total_num_tokens=self.memory.capacity,
            max_running_requests=self.max_running_requests,
            gen_throughput=self.gen_throughput,
            cache_hit_rate=self.cache_hit_rate,
            turn=self.turn,
            num_ledger_repairs=self.num_ledger_repairs,
            num_evictable_tokens=self.memory.num_evictable,
            figures=figures,
        )

    def describe(self) -> str:
        """The part that every log line ends with."""
        used = self.memory.num_used
        return (
            f"{self.num_running} running, {self.num_waiting} waiting, "
            f"{used}/{self.memory.capacity} tokens in use ({used / max(self.memory.capacity, 1):.0%}), "
            f"{self.cache_hit_rate:.0%} of prompt tokens from the cache"
        )


class Throughput:
    """Tokens a second over windows of about a second."""

    def __init__(self) -> None:
        self.rate = 0.0
        self._num_tokens = 0
        self._start: float | None = None

    def add(self, num_tokens: int, clock: float) -> None:
        """So many tokens came by now; zero also counts, as time in which none came."""
        if self._start is None:
            self._start = clock
        self._num_tokens += num_tokens
        elapsed = clock - self._start
        if elapsed >= THROUGHPUT_WINDOW_S:
            self.rate = self._num_tokens / elapsed
            self._num_tokens = 0
            self._start = clock


class StatsKeeper:
    """Counts what happens. Everything here is for people and routers: nothing decides by it.

    `decode_log_interval` None: log nothing.
    """

    def __init__(self, decode_log_interval: int | None) -> None:
        self.num_finished = 0
        self.num_ledger_repairs = 0
        self.work = WorkCounts()
        self.throughput = Throughput()
        self._decode_log_interval = decode_log_interval
        self._num_decode_steps = 0
        self._num_prompt_tokens = 0
        self._num_cached_tokens = 0

    @property
    def cache_hit_rate(self) -> float:
        """Share of prompt tokens that were cached when their request was admitted."""
        return self._num_cached_tokens / self._num_prompt_tokens if self._num_prompt_tokens else 0.0

    def admitted(self, requests: Sequence[Request], clock: float) -> None:
        """These left the queue for the first time or again; only their prompts' first admission counts.

        A health check's prompt says nothing of what clients find in the cache.
        """
        self.work.admitted(requests, clock)
        for request in requests:
            if request.num_retractions == 0 and not request.is_probe:
                self._num_prompt_tokens += request.prompt_len
                self._num_cached_tokens += request.num_cached_tokens or 0

    def forget_hits(self) -> None:
        """The cache was flushed; its hit rate starts anew."""
        self._num_prompt_tokens = self._num_cached_tokens = 0

    def is_log_due(self, batch: Batch) -> bool:
        """Count a step; whether it should be logged. Every step with prefill is, and some of the others."""
        if self._decode_log_interval is None:
            return False
        if len(batch.rows) > batch.num_decode_rows:
            return True
        self._num_decode_steps += 1
        return self._num_decode_steps % max(self._decode_log_interval, 1) == 0


def log_step(batch: Batch, admitted: Sequence[Request], stats: SchedulerStats) -> None:
    """One readable line about a step."""
    if len(batch.rows) > batch.num_decode_rows:
        logger.info(
            "Prefill: %d new tokens of %d requests, %d admitted with %d tokens cached, %d decode rows; %s",
            batch.num_tokens - batch.num_decode_rows,
            len(batch.rows) - batch.num_decode_rows,
            len(admitted),
            sum(request.num_cached_tokens or 0 for request in admitted),
            batch.num_decode_rows,
            stats.describe(),
        )
    else:
        logger.info("Decode: %.1f tokens/s; %s", stats.gen_throughput, stats.describe())


class LoadReports:
    """When a `SchedulerLoad` is due, by the tick's clock."""

    def __init__(self) -> None:
        self._last_counts: tuple[int, int] | None = None
        self._last_clock = 0.0
        self._was_idle = True

    def is_due(self, num_running: int, num_waiting: int, clock: float) -> bool:
        """Whether to send one now; a yes counts as sent."""
        counts = (num_running, num_waiting)
        is_idle = counts == (0, 0)
        became_idle = is_idle and not self._was_idle
        self._was_idle = is_idle
        age = clock - self._last_clock
        due = (
            self._last_counts is None
            or became_idle
            or (counts != self._last_counts and age >= LEAST_LOAD_INTERVAL_S)
            or age >= MOST_LOAD_INTERVAL_S
        )
        if due:
            self._last_counts, self._last_clock = counts, clock
        return due
