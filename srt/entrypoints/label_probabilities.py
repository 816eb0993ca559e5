"""How likely some tokens are as the next one: asked of the engine as an answer of one token.

Prompts of one request that begin alike compute that beginning once: the scheduler lets the others wait for it.
"""

import math
from collections.abc import Sequence

from srt.engine_client import LogprobOptions
from srt.entrypoints.choices import Choice
from srt.errors import InvalidRequest
from srt.sampling.params import SamplingParams

# The token itself is thrown away; its distribution is what counts.
ONE_TOKEN = SamplingParams(max_new_tokens=1, temperature=0.0)
MAX_LABELS = 1024


def ask_labels(token_ids: Sequence[int], vocab_size: int) -> LogprobOptions:
    """What to ask of the engine about one prompt. Raises InvalidRequest."""
    if not 0 < len(token_ids) <= MAX_LABELS:
        raise InvalidRequest(
            f"label_token_ids must name 1 to {MAX_LABELS} tokens, not {len(token_ids)}",
            param="label_token_ids",
        )
    for token_id in token_ids:
        if not 0 <= token_id < vocab_size:
            raise InvalidRequest(
                f"label_token_ids: {token_id} is outside the vocabulary (0 to {vocab_size - 1})",
                param="label_token_ids",
            )
    return LogprobOptions(token_ids=tuple(token_ids))


def label_logprobs(choice: Choice) -> list[float]:
    """The logprobs of the labels, in the order in which they were asked for."""
    assert choice.last.logprobs is not None, "asked for, and not there"
    return choice.last.logprobs.asked[0]


def softmax(logprobs: Sequence[float], temperature: float = 1.0) -> list[float]:
    """Shares of 1 among these alone. Tokens that cannot come at all share equally."""
    largest = max(logprobs)
    if largest == -math.inf:
        return [1 / len(logprobs)] * len(logprobs)
    weights = [math.exp((logprob - largest) / temperature) for logprob in logprobs]
    return [weight / sum(weights) for weight in weights]
