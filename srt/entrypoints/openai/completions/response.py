"""Completed choices to the response that tells them whole."""

from collections.abc import Sequence

import msgspec

from srt.entrypoints.choices import Choice
from srt.entrypoints.openai.completions.protocol import (
    CompletionChoice,
    CompletionRequest,
    CompletionResponse,
)
from srt.entrypoints.openai.completions.running import RunningCompletion
from srt.entrypoints.openai.logprobs import CompletionLogprobs
from srt.entrypoints.openai.released_tokens import ReleasedTokens, prompt_tokens
from srt.entrypoints.openai.usage import count_usage


def to_completion_response(
    completion: RunningCompletion,
    choices: Sequence[Choice],
    body: CompletionRequest,
    *,
    created: int,
    model: str,
) -> CompletionResponse:
    """All choices, by prompt and then by sample, and what they cost."""
    return CompletionResponse(
        id=completion.generation.request_id,
        created=created,
        model=model,
        choices=[_to_choice(completion, choice, body) for choice in choices],
        usage=count_usage((choice.last for choice in choices), n=completion.n),
    )


def _to_choice(completion: RunningCompletion, choice: Choice, body: CompletionRequest) -> CompletionChoice:
    index = choice.last.index
    prompt_token_ids = completion.generation.prompt_token_ids[index // completion.n]
    return CompletionChoice(
        index=index,
        text=completion.echo(index) + choice.text,
        logprobs=_to_logprobs(completion, choice) if completion.has_logprobs else None,
        finish_reason=choice.finish.type,
        matched_stop=choice.finish.matched,
        token_ids=choice.token_ids if body.return_token_ids else msgspec.UNSET,
        prompt_token_ids=list(prompt_token_ids) if body.wants_prompt_ids else msgspec.UNSET,
    )


def _to_logprobs(completion: RunningCompletion, choice: Choice) -> CompletionLogprobs:
    index = choice.last.index
    tokens = ReleasedTokens()
    if choice.prompt_logprobs is not None:
        tokens = prompt_tokens(choice.prompt_logprobs, completion.echo(index), completion.text_bytes)
    tokens.extend(completion.token_release(index).add(choice.merged))
    return completion.to_logprobs(tokens)
