"""How many tokens a request read and wrote, as OpenAI counts them."""

from collections.abc import Iterable

import msgspec

from srt.engine_client import GenerateChunk


class PromptTokensDetails(msgspec.Struct, frozen=True):
    """What part of the prompt was found in the cache."""

    cached_tokens: int


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """Token counts of a whole request."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptTokensDetails


def count_usage(last_chunks: Iterable[GenerateChunk], *, n: int) -> Usage:
    """Counts of the choices whose latest chunks these are; a prompt with `n` choices is counted once."""
    prompt_tokens = completion_tokens = cached_tokens = 0
    counted_prompts = set()
    for chunk in last_chunks:
        completion_tokens += chunk.completion_tokens
        prompt = chunk.index // n
        if prompt not in counted_prompts:
            counted_prompts.add(prompt)
            prompt_tokens += chunk.prompt_tokens
            cached_tokens += chunk.cached_tokens
    return Usage(
        prompt_tokens=prompt_tokens,
        completion_tokens=completion_tokens,
        total_tokens=prompt_tokens + completion_tokens,
        prompt_tokens_details=PromptTokensDetails(cached_tokens),
    )
