"""The scheduler's own cost of a turn, as the tables in docs/performance.md.

`python -m scripts.bench_scheduler [--json]`. What is measured: everything that rank 0's process does in a turn that
decodes, without model and sampler: look for messages, plan, take slots, build the batch, apply the tokens, encode and
send the output. One size at a time is varied. Figures are processor time of the whole process, the sockets' thread
included; the median of several rounds. For the whole of it, model included, see bench_serving.py.
"""

import argparse
import json
import statistics
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np
import numpy.typing as npt
import torch

from managers.ipc import IpcAddresses, Receiver, Sender
from managers.messages import DetokenizerInput, SchedulerInput, TokenizedRequest, pack_token_ids
from managers.process import keep_out_of_garbage_collection
from managers.scheduler.build import SchedulerSettings, build_scheduler
from managers.scheduler.priorities import NO_PRIORITIES, PriorityRules
from managers.scheduler.scheduler import Scheduler
from srt.forward_batch import ForwardBatch, Prediction
from srt.sampling.batch_params import SampleRow
from srt.sampling.params import SamplingParams
from tests.fakes.tokenizer import ByteTokenizer

VOCAB_SIZE = 1000
PROMPT_LEN = 16
CACHED_PROMPT_LEN = 1000
PRIORITIES = PriorityRules(is_enabled=True, preemption_threshold=10)
WARM_UP_TURNS, ROUNDS = 50, 5
MOST_TURNS, MOST_ROW_TURNS = 200, 50_000  # of a round


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One world to measure: requests that run, requests that wait, tokens in the prefix cache."""

    batch: int = 256
    waiting: int = 0
    waits_for_memory: bool = False  # those who wait, rather than for a place
    cached: int = 10
    page_size: int = 1
    policy: str = "fcfs"
    has_priorities: bool = False
    overlaps: bool = False

    @property
    def num_turns(self) -> int:
        """Turns of a round: fewer for large batches."""
        return min(MOST_TURNS, max(MOST_ROW_TURNS // self.batch, 40))

    @property
    def answer_len(self) -> int:
        """Nobody ends before the measurement does."""
        return WARM_UP_TURNS + ROUNDS * self.num_turns + self.batch + 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Microseconds of one turn, and of one running request in one turn."""

    cpu_us: float
    wall_us: float
    cpu_us_per_request: float


BASE = Case()
TABLES = {
    "running requests": [replace(BASE, batch=batch) for batch in (1, 8, 64, 256, 1024)],
    "waiting requests": [replace(BASE, waiting=waiting) for waiting in (0, 100, 10_000, 100_000)],
    "waiting requests, longest prefix first, priorities": [
        replace(BASE, waiting=waiting, policy="lpm", has_priorities=True)
        for waiting in (0, 100, 10_000, 100_000)
    ],
    "requests that wait for memory": [
        replace(BASE, waiting=waiting, waits_for_memory=True) for waiting in (0, 100, 10_000, 100_000)
    ],
    "tokens in the prefix cache": [replace(BASE, cached=cached) for cached in (10, 1000, 100_000, 1_000_000)],
    "page size": [replace(BASE, page_size=page_size) for page_size in (1, 16)],
    "serial or overlapped loop": [replace(BASE, overlaps=overlaps) for overlaps in (False, True)],
}


class FreeRunner:
    """A model that has its answer ready."""

    vocab_size = VOCAB_SIZE

    def __init__(self, most_rows: int) -> None:
        self._logits = torch.zeros(most_rows, 1)
        self._likeliest = torch.ones(most_rows, dtype=torch.int64)

    def forward(self, batch: ForwardBatch) -> Prediction:
        """At once. Every token is token 1."""
        return Prediction(self._logits[: len(batch.logit_rows)], self._likeliest[: len(batch.greedy_rows)])


class FreeSampler:
    """Every token is token 1."""

    def __init__(self, most_rows: int) -> None:
        self._token_ids = np.ones(most_rows, np.int64)

    def sample(self, logits: torch.Tensor, rows: Sequence[SampleRow]) -> npt.NDArray[np.int64]:
        """At once."""
        return self._token_ids[: len(rows)]


class World:
    """A scheduler between two real sockets, and who runs, waits and is cached in it."""

    def __init__(self, case: Case, addresses: IpcAddresses) -> None:
        self._case = case
        self._inbox = Receiver[SchedulerInput](addresses.scheduler_input, SchedulerInput)
        self._drain = Receiver[DetokenizerInput](addresses.detokenizer_input, DetokenizerInput)
        self._outbox = Sender[DetokenizerInput](addresses.detokenizer_input)
        self._scheduler = self._build()
        self._num_requests = 0
        self._fill_cache()
        self._add(case.batch, PROMPT_LEN, case.answer_len)
        self._take_turns(WARM_UP_TURNS + case.batch * PROMPT_LEN // self._settings.chunk_size)
        assert len(self._scheduler.running) == case.batch
        self._add(case.waiting, PROMPT_LEN, case.answer_len)
        self._take_turns(1)
        keep_out_of_garbage_collection()  # as every process does when it is ready

    def measure(self) -> Cost:
        """Median of the rounds."""
        rounds = [self._measure_round() for _ in range(ROUNDS)]
        stats = self._scheduler.stats()
        assert (stats.num_running, stats.num_waiting) == (self._case.batch, self._case.waiting)
        cpu_us = statistics.median(cpu for cpu, _ in rounds)
        wall_us = statistics.median(wall for _, wall in rounds)
        return Cost(cpu_us=cpu_us, wall_us=wall_us, cpu_us_per_request=cpu_us / self._case.batch)

    def close(self) -> None:
        """Let go of the sockets."""
        for socket in (self._inbox, self._drain, self._outbox):
            socket.close()

    def _build(self) -> Scheduler:
        case = self._case
        tokens_of_one = PROMPT_LEN + case.answer_len + case.page_size
        self._settings = SchedulerSettings(
            vocab_size=VOCAB_SIZE,
            eos_token_ids=(0,),
            context_length=max(tokens_of_one, CACHED_PROMPT_LEN + 1),
            capacity=case.cached + case.batch * tokens_of_one,
            page_size=case.page_size,
            chunk_size=4096,
            max_running_requests=2 * case.batch if case.waits_for_memory else case.batch,
            policy=case.policy,
            priorities=PRIORITIES if case.has_priorities else NO_PRIORITIES,
            overlaps=case.overlaps,
        )
        return build_scheduler(
            self._settings,
            runner=FreeRunner(case.batch),
            sampler=FreeSampler(case.batch),
            tokenizer=ByteTokenizer(),
            outbox=self._outbox,
        )

    def _fill_cache(self) -> None:
        prompt_len = min(self._case.cached, CACHED_PROMPT_LEN)
        self._add(self._case.cached // prompt_len, prompt_len, 0)
        while not self._scheduler.is_idle:
            self._take_turns(1)
        assert self._scheduler.stats().memory.num_cached >= 0.9 * self._case.cached - self._case.page_size

    def _add(self, num_requests: int, prompt_len: int, answer_len: int) -> None:
        """Streaming requests whose prompts have nothing in common."""
        sampling = SamplingParams(max_new_tokens=answer_len, temperature=0.0, ignore_eos=True, seed=1)
        messages: list[SchedulerInput] = []
        for _ in range(num_requests):
            self._num_requests += 1
            prompt = [self._num_requests // VOCAB_SIZE, self._num_requests % VOCAB_SIZE]
            input_ids = pack_token_ids((prompt * prompt_len)[:prompt_len])
            messages.append(
                TokenizedRequest(
                    request_id=self._num_requests, input_ids=input_ids, sampling=sampling, stream=True
                )
            )
        self._take_turn(messages)

    def _take_turns(self, num_turns: int) -> None:
        """As managers/scheduler/event_loop.py does."""
        for _ in range(num_turns):
            self._take_turn(self._inbox.receive(0.0))

    def _take_turn(self, messages: list[SchedulerInput]) -> None:
        self._scheduler.run_turn(self._scheduler.plan_turn(time.monotonic(), messages))

    def _measure_round(self) -> tuple[float, float]:
        self._drain.receive(0.1)
        cpu, wall = time.process_time(), time.perf_counter()
        self._take_turns(self._case.num_turns)
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        return cpu * 1e6 / self._case.num_turns, wall * 1e6 / self._case.num_turns


def measure(case: Case) -> Cost:
    """In a world of its own."""
    addresses = IpcAddresses.create()
    try:
        world = World(case, addresses)
        try:
            return world.measure()
        finally:
            world.close()
    finally:
        addresses.remove()


def describe(case: Case) -> str:
    """What sets a case apart."""
    changes = [
        f"{name} {value:,}" if type(value) is int else f"{name} {value}"
        for name, value in asdict(case).items()
        if value != getattr(BASE, name)
    ]
    return ", ".join(changes) or "base"


def render_row(case: Case, cost: Cost) -> str:
    """One line of a table."""
    return f"| {describe(case)} | {cost.cpu_us:,.0f} | {cost.wall_us:,.0f} | {cost.cpu_us_per_request:.2f} |"


def main() -> None:
    """Print a table for each size that is varied."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="one JSON object a line instead of tables")
    parser.add_argument("--only", default="", help="only tables whose title contains this")
    options = parser.parse_args()
    for title, cases in TABLES.items():
        if options.only not in title:
            continue
        if not options.json:
            print(f"\n| {title} | CPU µs a turn | wall µs a turn | CPU µs a turn and request |")
            print("|---|---|---|---|")
        for case in cases:
            cost = measure(case)
            line = json.dumps({**asdict(case), **asdict(cost)}) if options.json else render_row(case, cost)
            print(line, flush=True)


if __name__ == "__main__":
    main()
