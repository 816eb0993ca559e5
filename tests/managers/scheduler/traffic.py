"""Seeded traffic for a scheduler: every kind of request and control message, in bursts and lulls, turn by turn.

What arrives depends on the seed and the number of the turn only, so every run of a seed gets the same.
"""

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec

from managers.messages import (
    AbortRequest,
    DefineGrammar,
    FlushCache,
    ForgetGrammar,
    GetState,
    RequestGrammar,
    SchedulerInput,
    Shutdown,
    TokenizedRequest,
    pack_token_ids,
)
from managers.scheduler.build import SchedulerSettings
from managers.scheduler.priorities import PriorityRules
from managers.scheduler.queue_policy import POLICIES
from srt.engine_client import LogprobOptions
from srt.sampling.params import SamplingParams
from tests.fakes.grammars import FakeRule
from tests.fakes.model_runner import ALPHABET
from tests.managers.scheduler.world import SETTINGS

# Fields of TokenizedRequest that only some requests carry: one line each.
OPTIONAL_FIELDS: dict[str, Callable[[random.Random], Any]] = {
    "priority": lambda rng: rng.choice([-5, 0, 3, 10]),
    "timeout_s": lambda rng: rng.choice([0.05, 0.5, 2.0]),
    "logprobs": lambda rng: LogprobOptions(prompt_start=rng.choice([None, 0, 1]), num_top=rng.choice([0, 2])),
    "namespace": lambda rng: rng.choice([("tenant",), ("tenant", "salt"), ("other",)]),
}
# A stop token that hardly ever comes: with it the length of an answer is not known beforehand.
RARE_ID = 250
RULES = (
    FakeRule(letters="aceg"),
    FakeRule(letters="bdfh", least=3),
    FakeRule(letters="abxyz", least=5, most=5),
    FakeRule(letters="hgfedc", least=2, most=30),
)
PHASE_TURNS = 30
ARRIVALS_PER_TURN = (0.6, 0.2, 0.0, 0.0, 0.0, 0.3)  # of one phase after another
MAX_NEW_TOKENS = (0, 1, 2, 8, 8, 20, 40, 80, 100)


def settings_for(seed: int) -> SchedulerSettings:
    """A memory that the bursts fill, so that there are evictions, retractions and refusals."""
    rng = random.Random(f"settings {seed}")
    return replace(
        SETTINGS,
        capacity=rng.choice([140, 160, 200]),
        page_size=rng.choice([1, 1, 4]),
        chunk_size=rng.choice([8, 16, 32]),
        max_running_requests=rng.choice([8, 12, 16]),
        max_queued_requests=rng.choice([12, 20]),
        policy=rng.choice(list(POLICIES)),
        policy_seed=seed,
        conservativeness=rng.choice([0.0, 0.3]),  # so hopeful that memory runs out
        priorities=PriorityRules(
            is_enabled=rng.random() < 0.7, preemption_threshold=rng.choice([None, 0, 4])
        ),
        waiting_timeout_s=rng.choice([None, 1.5]),
        running_timeout_s=rng.choice([None, 3.0]),
        eviction_policy=rng.choice(["lru", "lfu", "slru", "priority"]),
        stream_interval=rng.choice([1, 3]),
    )


class Traffic:
    """An Inbox for rank 0. After `num_turns` nothing more comes, and when all is answered, the Shutdown."""

    def __init__(self, seed: int, num_turns: int) -> None:
        self.requests: dict[int, TokenizedRequest] = {}
        self.grammars: dict[int, FakeRule] = {}  # all there ever were, by number
        self.turn = 0
        self._rng = random.Random(f"traffic {seed}")
        self._num_turns = num_turns
        self._trunks = [self._text(self._rng.randint(10, 30)) for _ in range(3)]
        self._decoder = msgspec.msgpack.Decoder(list[SchedulerInput])
        self._defined: dict[FakeRule, int] = {}
        self._definitions: list[SchedulerInput] = []  # of the next turn

    def receive(self, timeout_s: float) -> list[SchedulerInput]:
        """The messages of the next turn. Who waits is idle."""
        self.turn += 1
        if self.turn > self._num_turns:
            return [Shutdown()] if timeout_s > 0 else []
        # As they come from the socket.
        return self._decoder.decode(msgspec.msgpack.encode(self._messages()))

    def _messages(self) -> list[SchedulerInput]:
        rng = self._rng
        messages: list[SchedulerInput] = []
        rate = ARRIVALS_PER_TURN[self.turn // PHASE_TURNS % len(ARRIVALS_PER_TURN)]
        while rng.random() < rate / (1 + rate):
            messages.extend(self._requests())
        if self.requests and rng.random() < 0.05:
            messages.append(self._abort())
        if rng.random() < 0.02:
            messages.append(FlushCache(control_id=self.turn))
        if rng.random() < 0.02:
            messages.append(GetState(control_id=self.turn))
        rng.shuffle(messages)
        # Before whoever names them, and forgotten behind.
        definitions, self._definitions = self._definitions, []
        if self._defined and rng.random() < 0.1:
            messages.append(ForgetGrammar(grammar_id=self._defined.pop(rng.choice(list(self._defined)))))
        return definitions + messages

    def _requests(self) -> list[SchedulerInput]:
        """One prompt with one answer, or with several; all of them join the leader's prefix."""
        rng = self._rng
        prompt_ids = rng.choice([[], *self._trunks])[: rng.randint(1, 30)] + self._text(rng.randint(1, 15))
        optional = {name: draw(rng) for name, draw in OPTIONAL_FIELDS.items() if rng.random() < 0.25}
        sampling, stream = random_sampling(rng), rng.random() < 0.7
        grammar = self._grammar() if rng.random() < 0.25 else None
        leader = len(self.requests) + 1
        for i in range(rng.choice([1, 1, 1, 3])):
            self.requests[leader + i] = TokenizedRequest(
                request_id=leader + i,
                input_ids=pack_token_ids(prompt_ids),
                sampling=msgspec.structs.replace(sampling, seed=(sampling.seed or 0) + i),
                stream=stream,
                group_leader=leader if i else None,
                grammar=grammar,
                **optional,
            )
        return [self.requests[request_id] for request_id in range(leader, len(self.requests) + 1)]

    def _grammar(self) -> RequestGrammar:
        """One of a few, defined anew if it is not known."""
        rule = self._rng.choice(RULES)
        if rule not in self._defined:
            number = self._defined[rule] = len(self.grammars) + 1
            self.grammars[number] = rule
            self._definitions.append(DefineGrammar(grammar_id=number, payload=rule.payload()))
        return RequestGrammar(
            grammar_id=self._defined[rule], begins_after=self._rng.choice([None, None, None, "b"])
        )

    def _abort(self) -> AbortRequest:
        """Of late arrivals mostly; some have ended, some were never there, some come in this very turn."""
        last = len(self.requests)
        count = self._rng.choice([1, 1, 3])
        return AbortRequest(
            request_ids=[self._rng.randint(max(1, last - 20), last + 1) for _ in range(count)]
        )

    def _text(self, length: int) -> list[int]:
        return [self._rng.choice(ALPHABET) for _ in range(length)]


def random_sampling(rng: random.Random) -> SamplingParams:
    """Greedy, or sampled; with all that ends or bends an answer."""
    max_new_tokens = rng.choice(MAX_NEW_TOKENS)
    return SamplingParams(
        max_new_tokens=max_new_tokens,
        min_new_tokens=min(rng.choice([0, 0, 0, 5]), max_new_tokens),
        temperature=rng.choice([0.0, 0.0, 0.5, 1.0, 2.0]),
        top_k=rng.choice([-1, -1, 2, 20]),
        top_p=rng.choice([1.0, 1.0, 0.8]),
        min_p=rng.choice([0.0, 0.0, 0.0, 0.1]),
        seed=rng.getrandbits(60),
        stop=rng.choice([(), (), (), ("abc",), ("gh", "h", "acd")]),
        stop_token_ids=rng.choice([(), (RARE_ID,), (RARE_ID,), (ALPHABET[2],)]),
        ignore_eos=rng.random() < 0.8,
        no_stop_trim=rng.random() < 0.2,
        frequency_penalty=rng.choice([0.0, 0.0, 0.5]),
        repetition_penalty=rng.choice([1.0, 1.0, 1.0, 1.2]),
        logit_bias=rng.choice([(), (), (), ((ALPHABET[0], 1.5),)]),
    )
