"""Chunks whose tokens have log-probabilities that a test can read: token t has -t, and likelier ones beside it."""

from collections.abc import Sequence

import msgspec

from srt.engine_client import FinishReason, GenerateChunk, Logprobs
from tests.fakes.engine_client import chunk


def told(
    text: str = "",
    *,
    token_ids: Sequence[int] | None = None,
    num_top: int = 0,
    num_trimmed_tokens: int = 0,
    finish: FinishReason | None = None,
    index: int = 0,
    completion_tokens: int = 1,
    prompt: bytes | None = None,
) -> GenerateChunk:
    """A chunk of the fake engine, whose tokens are bytes, with what they were told to be worth."""
    ids = list(text.encode() if token_ids is None else token_ids)
    made = chunk(
        text,
        index=index,
        finish=finish,
        token_ids=ids,
        completion_tokens=completion_tokens,
        logprobs=logprobs_of(ids, num_top),
        prompt_logprobs=None if prompt is None else logprobs_of_prompt(list(prompt), num_top),
    )
    return msgspec.structs.replace(made, num_trimmed_tokens=num_trimmed_tokens)


def logprobs_of(ids: Sequence[int], num_top: int) -> Logprobs:
    """Token t has -t; the likeliest beside it are a, b, c … with -0.5, -1.5 …"""
    top = [[(97 + i, -0.5 - i) for i in range(num_top)] for _ in ids]
    return Logprobs(token_ids=list(ids), logprobs=[-float(i) for i in ids], top=top, asked=[[] for _ in ids])


def logprobs_of_prompt(ids: Sequence[int], num_top: int) -> Logprobs:
    """The same; the first token has nothing before it."""
    told_of = logprobs_of(ids, num_top)
    told_of.logprobs[0] = None
    told_of.top[0] = []
    return told_of
