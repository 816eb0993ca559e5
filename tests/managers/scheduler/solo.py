"""What a request must answer, whatever runs beside it: computed without batches, memory or caches."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
import torch

from managers.scheduler.seen_tokens import SeenTokens
from srt.constrained.answer_grammar import bits_of
from srt.engine_client import LogprobOptions, Logprobs
from srt.sampling.batch_params import SampleRow
from srt.sampling.logprobs import Wanted, find_logprobs
from srt.sampling.params import SamplingParams
from srt.sampling.sampler import Sampler
from tests.fakes.grammars import FakeRule
from tests.fakes.model_runner import FIRST_CHOICE, SECOND_CHOICE, choices
from tests.fakes.tokenizer import EOS_ID, VOCAB_SIZE, ByteTokenizer

TOKENIZER = ByteTokenizer()
SAMPLER = Sampler(VOCAB_SIZE)
# Every row has the same logits in another order, and sums of so few float32 values are exact in float64.
LOGPROB_OF_OTHERS = find_logprobs(
    torch.tensor([[FIRST_CHOICE, SECOND_CHOICE] + [0.0] * (VOCAB_SIZE - 2)]), [Wanted(VOCAB_SIZE - 1)]
)[0].logprob


@dataclass(frozen=True)
class Answer:
    """The whole output: ids, why it ended, and what was cut off."""

    token_ids: list[int]
    finish_type: str
    matched: int | str | None = None
    text_end: int | None = None
    num_trimmed_tokens: int = 0


@dataclass(frozen=True)
class SoloGrammar:
    """`rule`, from the beginning or once the answer has said `begins_after`."""

    rule: FakeRule
    begins_after: str | None = None

    def allowed(self, output: Sequence[int], stop_ids: set[int]) -> set[int]:
        """What may come behind `output`, all of it text."""
        start = 0
        if self.begins_after is not None:
            found = bytes(token_id % 256 for token_id in output).find(self.begins_after.encode())
            if found < 0:
                return set(range(VOCAB_SIZE)) - stop_ids
            start = found + len(self.begins_after)
        num_taken = len(output) - start
        letters = set(self.rule.ids) - stop_ids if num_taken < self.rule.most else set()
        return letters | (stop_ids if num_taken >= self.rule.least else set())

    def is_whole(self, output: Sequence[int], stop_ids: set[int]) -> bool:
        """Whether nothing but the end may follow."""
        return self.allowed(output, stop_ids) <= stop_ids


def solo(prompt_ids: Sequence[int], params: SamplingParams, grammar: SoloGrammar | None = None) -> Answer:
    """The answer of the fake model."""
    output: list[int] = []
    stop_ids = {*params.stop_token_ids, *(() if params.ignore_eos else (EOS_ID,))}
    text, decoder = "", TOKENIZER.incremental_decoder()
    while len(output) < (params.max_new_tokens or 0):
        banned = stop_ids if len(output) < params.min_new_tokens else set()
        allowed = None if grammar is None else grammar.allowed(output, stop_ids)
        output.append(_next_token([*prompt_ids, *output], output, params, banned, allowed))
        assert allowed is None or output[-1] in allowed - banned
        before = text
        text += decoder.push(output[-1])
        counts = len(output) >= params.min_new_tokens
        stops = [stop for stop in params.stop if text != before and text.endswith(stop)]
        if counts and stops:
            stop = max(stops, key=len)
            return Answer(output, "stop", stop, len(text) - (0 if params.no_stop_trim else len(stop)))
        if counts and output[-1] in stop_ids:
            return Answer(output, "stop", output[-1], None, 0 if params.no_stop_trim else 1)
        if grammar is not None and grammar.is_whole(output, stop_ids):
            return Answer(output, "stop")
    return Answer(output, "length")


def solo_logprobs(token_ids: Sequence[int], start: int, options: LogprobOptions) -> Logprobs:
    """Of the tokens from `start` on, by the fake model."""
    logprobs = Logprobs()
    for position in range(start, len(token_ids)):
        logprobs.token_ids.append(token_ids[position])
        if position == 0:
            logprobs.extend(Logprobs(logprobs=[None], top=[[]], asked=[[]]))
            continue
        first, second = choices(token_ids[:position])
        others = (token_id for token_id in range(VOCAB_SIZE) if token_id not in (first, second))
        ranked = [first, second, *islice(others, max(options.num_top - 2, 0))][: options.num_top]
        told = {first: FIRST_CHOICE + LOGPROB_OF_OTHERS, second: SECOND_CHOICE + LOGPROB_OF_OTHERS}
        logprobs.logprobs.append(told.get(token_ids[position], LOGPROB_OF_OTHERS))
        logprobs.top.append([(token_id, told.get(token_id, LOGPROB_OF_OTHERS)) for token_id in ranked])
        logprobs.asked.append([told.get(token_id, LOGPROB_OF_OTHERS) for token_id in options.token_ids])
    return logprobs


def _next_token(
    token_ids: list[int],
    output: list[int],
    params: SamplingParams,
    banned: set[int],
    allowed: set[int] | None,
) -> int:
    if not params.is_greedy or params.logit_bias or params.repetition_penalty != 1.0:
        return _sampled_token(token_ids, output, params, banned, allowed)
    first, second = choices(token_ids)
    is_possible = first not in banned and (allowed is None or first in allowed)
    if is_possible and not params.frequency_penalty:
        return first
    # Of all others the lowest ids win, of which so many may be penalised or banned.
    scores = {token_id: 0.0 for token_id in range(len(output) + len(banned) + 1)}
    scores |= {token_id: 0.0 for token_id in [*output, *(allowed or ())]} | {
        first: FIRST_CHOICE,
        second: SECOND_CHOICE,
    }
    counts = Counter(output)
    possible = {
        token_id: score - params.frequency_penalty * counts.get(token_id, 0)
        for token_id, score in scores.items()
        if token_id not in banned and (allowed is None or token_id in allowed)
    }
    return min(possible, key=lambda token_id: (-possible[token_id], token_id))


def _sampled_token(
    token_ids: list[int],
    output: list[int],
    params: SamplingParams,
    banned: set[int],
    allowed: set[int] | None,
) -> int:
    """What the real sampler says to a row that is alone."""
    first, second = choices(token_ids)
    logits = torch.zeros(1, VOCAB_SIZE)
    logits[0, first], logits[0, second] = FIRST_CHOICE, SECOND_CHOICE
    seen = SeenTokens(np.array(token_ids[: len(token_ids) - len(output)], np.int32))
    for token_id in output:
        seen.add(token_id)
    row = SampleRow(
        params=params,
        position=len(token_ids),
        seen_ids=seen.ids,
        seen_output_counts=seen.output_counts,
        banned_ids=np.array(sorted(banned), np.int64) if banned else None,
        allowed=None if allowed is None else bits_of(allowed, -(-VOCAB_SIZE // 32)),
    )
    return int(SAMPLER.sample(logits, [row])[0])
