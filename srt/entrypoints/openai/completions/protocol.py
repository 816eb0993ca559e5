"""A completion request, response and chunk, as OpenAI spells them."""

from typing import Any, Literal

import msgspec

from srt.entrypoints.openai.request import GenerationFields
from srt.entrypoints.openai.usage import Usage
from srt.entrypoints.refused_fields import Refused


class CompletionRequest(GenerationFields, kw_only=True):
    """POST /v1/completions. `prompt` is a text, several, token ids, or several lists of those."""

    prompt: str | list[str | int | list[int]]
    max_tokens: int | None = None
    echo: bool | None = None
    best_of: int | None = None
    logprobs: Any = None  # 0 asks for something here, so it is not among the refused ones
    suffix: Refused = None
    prompt_embeds: Refused = None
    input_embeds: Refused = None


class CompletionChoice(msgspec.Struct, frozen=True, kw_only=True):
    """One completion. `matched_stop` is SGLang's: the stop string or token id that ended it."""

    index: int
    text: str
    logprobs: None = None
    finish_reason: str | None = None
    matched_stop: int | str | msgspec.UnsetType | None = msgspec.UNSET


class CompletionResponse(msgspec.Struct, frozen=True, kw_only=True):
    """The whole response, and an event of a stream, which are the same object here.

    `usage` is absent from a stream's events unless asked for, and null before there is something to count.
    """

    id: str
    object: Literal["text_completion"] = "text_completion"
    created: int
    model: str
    choices: list[CompletionChoice]
    usage: Usage | msgspec.UnsetType | None = msgspec.UNSET
