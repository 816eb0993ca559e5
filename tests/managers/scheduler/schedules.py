"""Random schedules from a seed: settings, requests, and when things happen."""

import random
from dataclasses import dataclass, replace

from managers.scheduler.build import SchedulerSettings
from managers.scheduler.priorities import NO_PRIORITIES, PriorityRules
from managers.scheduler.queue_policy import POLICIES
from srt.engine_client import LogprobOptions, Logprobs
from srt.sampling.params import SamplingParams
from tests.fakes.grammars import FakeRule
from tests.fakes.model_runner import ALPHABET
from tests.managers.scheduler.solo import SoloGrammar, solo, solo_logprobs
from tests.managers.scheduler.world import SETTINGS, Heard, World, greedy


@dataclass(frozen=True)
class PlannedRequest:
    """One prompt with `n` equal answers, arriving before turn `arrives`; maybe aborted before a later one.

    Before any turn at all the model may be slow: `delay_s` passes before the turn in which it arrives.
    """

    prompt_ids: list[int]
    sampling: SamplingParams
    n: int
    stream: bool
    arrives: int
    aborted: int | None
    namespace: tuple[str, ...]
    priority: int | None
    timeout_s: float | None
    delay_s: float
    logprobs: LogprobOptions | None
    grammar: SoloGrammar | None


@dataclass(frozen=True)
class Schedule:
    """Everything that happens to one world."""

    settings: SchedulerSettings
    requests: list[PlannedRequest]

    @staticmethod
    def of(seed: int) -> "Schedule":
        """The same schedule for the same seed."""
        rng = random.Random(seed)
        page_size = rng.choice([1, 1, 4, 16])
        capacity = rng.choice([32, 32, 48, 64, 112]) // page_size * page_size
        settings = replace(
            SETTINGS,
            capacity=capacity,
            page_size=page_size,
            use_radix_cache=rng.random() < 0.8,
            chunk_size=rng.choice([2, 5, 16, 64, 1000]),
            max_running_requests=rng.choice([1, 4, 8, 16, 16]),
            max_queued_requests=rng.choice([None, None, None, 1, 4]),
            policy=rng.choice(list(POLICIES)),
            policy_seed=rng.randint(0, 9),
            conservativeness=rng.choice([0.0, 0.0, 0.2, 1.0]),
            priorities=rng.choice([NO_PRIORITIES, _priorities(rng)]),
            waiting_timeout_s=rng.choice([None, None, None, 0.1]),
            running_timeout_s=rng.choice([None, None, None, 0.2]),
            stream_interval=rng.choice([1, 1, 3]),
            context_length=rng.choice([31, 1000]),
            overlaps=seed % 2 == 1,
        )
        trunks = [_text(rng, rng.randint(3, 13)) for _ in range(2)]
        requests = [_request(rng, trunks, settings.length_limit) for _ in range(rng.randint(4, 9))]
        return Schedule(settings, requests)

    @property
    def last_event(self) -> int:
        """The turn before which the last thing happens."""
        return max(max(request.arrives, request.aborted or 0) for request in self.requests)

    def send_events(self, turn: int, world: World, ids: dict[int, list[int]]) -> None:
        """Send what happens before `turn`; `ids` keeps the request ids of each planned request."""
        for index, request in enumerate(self.requests):
            if request.arrives == turn:
                ids[index] = []
                world.clock.advance(request.delay_s)
                for _ in range(request.n):
                    leader = ids[index][0] if ids[index] else None
                    ids[index].append(
                        world.add(
                            request.prompt_ids,
                            request.sampling,
                            stream=request.stream,
                            leader=leader,
                            namespace=request.namespace,
                            priority=request.priority,
                            timeout_s=request.timeout_s,
                            logprobs=request.logprobs,
                            grammar=request.grammar,
                        )
                    )
            if request.aborted == turn:
                world.abort(*ids[index])


def check_answers(schedule: Schedule, world: World, ids: dict[int, list[int]]) -> None:
    """Every request has its solo answer; one that was cut off for a reason there is, a beginning of it."""
    for index, request in enumerate(schedule.requests):
        expected = solo(request.prompt_ids, request.sampling, request.grammar)
        for request_id in ids[index]:
            answer = world.answer(request_id)
            check_logprobs(world.heard[request_id], request.prompt_ids, request.logprobs)
            if answer.finish_type == "abort":
                assert world.finish(request_id).reason.status_code in _reasons_to_cut(schedule, request)
                assert answer.token_ids == expected.token_ids[: len(answer.token_ids)]
            else:
                assert answer == expected


def check_logprobs(heard: Heard, prompt_ids: list[int], options: LogprobOptions | None) -> None:
    """Those of a solo run, of as many tokens as came; of the prompt, all or nothing."""
    if options is None:
        assert heard.logprobs is None
        return
    told = heard.logprobs or Logprobs()
    assert told == solo_logprobs(prompt_ids + heard.token_ids, len(prompt_ids), options)
    if heard.prompt_logprobs is not None:
        assert options.prompt_start is not None
        assert heard.prompt_logprobs == solo_logprobs(prompt_ids, options.prompt_start, options)
    else:
        was_cut_off = heard.answer.finish_type == "abort" and not heard.token_ids
        assert options.prompt_start is None or was_cut_off


def _reasons_to_cut(schedule: Schedule, request: PlannedRequest) -> set[int]:
    settings = schedule.settings
    reasons = {
        200: request.aborted is not None,
        503: settings.max_queued_requests is not None or settings.waiting_timeout_s is not None,
        504: settings.running_timeout_s is not None or request.timeout_s is not None,
    }
    return {status for status, is_possible in reasons.items() if is_possible}


def _priorities(rng: random.Random) -> PriorityRules:
    return PriorityRules(
        is_enabled=True,
        low_values_first=rng.random() < 0.3,
        default_priority=rng.choice([None, 2]),
        preemption_threshold=rng.choice([None, 0, 0, 3]),
    )


def _request(rng: random.Random, trunks: list[list[int]], limit: int) -> PlannedRequest:
    prompt_ids = rng.choice([[], *trunks, *trunks])[: rng.randint(1, 16)] + _text(rng, rng.randint(1, 10))
    prompt_ids = prompt_ids[: limit - 2]
    max_new_tokens = min(rng.choice([0, 1, 2, 6, 20, 30, 30]), limit - len(prompt_ids))
    arrives = rng.choice([0, 0, rng.randint(0, 15)])
    sampling = greedy(
        max_new_tokens,
        min_new_tokens=min(rng.choice([0, 0, 5]), max_new_tokens),
        stop=rng.choice([(), ("never",), ("never",), ("abc",), ("gh", "h", "acd")]),
        stop_token_ids=rng.choice([(), (), (), (), (ALPHABET[2],)]),
        ignore_eos=rng.random() < 0.7,
        no_stop_trim=rng.random() < 0.2,
        frequency_penalty=rng.choice([0.0, 0.0, 0.5]),
    )
    return PlannedRequest(
        prompt_ids=prompt_ids,
        sampling=sampling,
        n=rng.choice([1, 1, 1, 1, 3]),
        stream=rng.random() < 0.7,
        arrives=arrives,
        aborted=arrives + rng.randint(0, 20) if rng.random() < 0.2 else None,
        namespace=rng.choice([(), (), ("tenant",)]),
        priority=rng.choice([None, 0, 1, 1, 2, 7]),
        timeout_s=rng.choice([None] * 9 + [0.15]),
        delay_s=rng.choice([0.0] * 9 + [0.05]),
        logprobs=_logprobs(rng, len(prompt_ids)),
        grammar=random_grammar(rng),
    )


def random_grammar(rng: random.Random) -> SoloGrammar | None:
    """For one request in three. Those that may begin to be constrained in the middle need not come to that."""
    if rng.random() < 0.67:
        return None
    least = rng.choice([0, 1, 7])
    rule = FakeRule(
        letters="".join(rng.sample("abdefghxyz", rng.randint(1, 5))) + rng.choice(["", "c"]),
        least=least,
        most=rng.choice([max(least, 1), least + 12, 1000]),
    )
    return SoloGrammar(rule, begins_after=rng.choice([None, None, None, "a", "b", "gh"]))


def _logprobs(rng: random.Random, prompt_len: int) -> LogprobOptions | None:
    if rng.random() < 0.85:
        return None
    return LogprobOptions(
        prompt_start=rng.choice([None, 0, 0, 1, rng.randint(0, prompt_len), prompt_len]),
        num_top=rng.choice([0, 0, 1, 3]),
        token_ids=rng.choice([(), (), (ALPHABET[1], 0)]),
    )


def _text(rng: random.Random, length: int) -> list[int]:
    return [rng.choice(ALPHABET) for _ in range(length)]
