"""How many tokens a request read and wrote, as OpenAI counts them."""

from collections.abc import Callable, Iterable

import msgspec

from srt.engine_client import GenerateChunk


class PromptTokensDetails(msgspec.Struct, frozen=True):
    """What part of the prompt was found in the cache."""

    cached_tokens: int


class CompletionTokensDetails(msgspec.Struct, frozen=True):
    """What part of the answer was reasoning."""

    reasoning_tokens: int


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """Token counts of a whole request. Details of the completion are there for models that reason."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptTokensDetails
    completion_tokens_details: CompletionTokensDetails | msgspec.UnsetType = msgspec.UNSET


# What an event says of usage: nothing at all, null, or the counts so far.
EventUsage = Usage | None | msgspec.UnsetType


def count_usage(
    last_chunks: Iterable[GenerateChunk], *, n: int, num_reasoning_tokens: int | None = None
) -> Usage:
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
        completion_tokens_details=(
            msgspec.UNSET if num_reasoning_tokens is None else CompletionTokensDetails(num_reasoning_tokens)
        ),
    )


class StreamUsage:
    """What the events of one stream say of it: nothing, only the last event, or every event."""

    def __init__(
        self,
        *,
        n: int,
        is_included: bool,
        is_continuous: bool,
        num_reasoning_tokens: Callable[[], int] | None = None,
    ) -> None:
        self.is_included = is_included
        self.is_continuous = is_continuous
        self._n = n
        self._num_reasoning_tokens = num_reasoning_tokens
        self._last_chunks: dict[int, GenerateChunk] = {}

    def note(self, chunk: GenerateChunk) -> None:
        """The latest chunk of its choice."""
        self._last_chunks[chunk.index] = chunk

    def in_event(self) -> EventUsage:
        """For an event of a choice."""
        if self.is_continuous:
            return self.total()
        return None if self.is_included else msgspec.UNSET

    def total(self) -> Usage:
        """All that was noted."""
        num_reasoning_tokens = None if self._num_reasoning_tokens is None else self._num_reasoning_tokens()
        return count_usage(self._last_chunks.values(), n=self._n, num_reasoning_tokens=num_reasoning_tokens)
