"""A completion request, response and chunk, as OpenAI spells them."""

from typing import Literal

import msgspec

from srt.entrypoints.openai.logprobs import CompletionLogprobs, NumLogprobs
from srt.entrypoints.openai.request import SYSTEM_FINGERPRINT, GenerationFields
from srt.entrypoints.openai.usage import Usage
from srt.entrypoints.refused_fields import Refused


class CompletionRequest(GenerationFields, kw_only=True):
    """POST /v1/completions. `prompt` is a text, several, token ids, or several lists of those."""

    prompt: str | list[str | int | list[int]]
    max_tokens: int | None = None
    echo: bool | None = None
    best_of: int | None = None
    logprobs: NumLogprobs | bool | None = None  # false, which some clients send, asks for none
    suffix: Refused = None
    prompt_embeds: Refused = None
    input_embeds: Refused = None
    top_logprobs: Refused = None
    add_special_tokens: Refused = None


class CompletionChoice(msgspec.Struct, frozen=True, kw_only=True):
    """One completion. `matched_stop` is SGLang's: the stop string or token id that ended it; so are the ids."""

    index: int
    text: str
    logprobs: CompletionLogprobs | None = None
    finish_reason: str | None = None
    matched_stop: int | str | msgspec.UnsetType | None = msgspec.UNSET
    token_ids: list[int] | msgspec.UnsetType = msgspec.UNSET
    prompt_token_ids: list[int] | msgspec.UnsetType = msgspec.UNSET


class CompletionResponse(msgspec.Struct, frozen=True, kw_only=True):
    """The whole response, and an event of a stream, which are the same object here.

    `usage` is absent from a stream's events unless asked for, and null before there is something to count.
    """

    id: str
    object: Literal["text_completion"] = "text_completion"
    created: int
    model: str
    system_fingerprint: str = SYSTEM_FINGERPRINT
    choices: list[CompletionChoice]
    usage: Usage | msgspec.UnsetType | None = msgspec.UNSET
