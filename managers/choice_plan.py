"""What each choice of a prompt is asked for: one setting for n answers becomes n settings for one answer each."""

import random

import msgspec

from srt.errors import ContextLengthExceeded
from srt.sampling.params import SamplingParams


def plan_choices(sampling: SamplingParams, *, prompt_len: int, context_length: int) -> list[SamplingParams]:
    """One entry a choice, with a length and a seed that are set; the i-th has the first one's seed plus i.

    Raises ContextLengthExceeded when prompt and answer together cannot fit, and InvalidRequest when the
    room that is left contradicts `min_new_tokens`.
    """
    max_new_tokens = sampling.max_new_tokens
    if max_new_tokens is None:
        max_new_tokens = context_length - prompt_len
    if prompt_len + max_new_tokens > context_length:
        raise ContextLengthExceeded(
            f"The prompt has {prompt_len} tokens and {max_new_tokens} more are asked for, "
            f"but together they may have {context_length} at most",
            param="max_tokens",
        )
    seed = random.getrandbits(63) if sampling.seed is None else sampling.seed
    return [
        msgspec.structs.replace(sampling, n=1, max_new_tokens=max_new_tokens, seed=_wrap_int64(seed + i))
        for i in range(sampling.n)
    ]


def _wrap_int64(number: int) -> int:
    return (number + 2**63) % 2**64 - 2**63
