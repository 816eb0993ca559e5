"""A chat request, response and chunk, as OpenAI spells them."""

from typing import Any, Literal

import msgspec

from srt.entrypoints.openai.request import GenerationFields
from srt.entrypoints.openai.usage import Usage
from srt.entrypoints.refused_fields import Refused


class ContentPart(msgspec.Struct, kw_only=True):
    """One part of a message's content. Only text is served."""

    type: str
    text: str | None = None


class ToolCallFunction(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Which function an earlier answer called; `arguments` is JSON in a string, or already an object."""

    name: str
    arguments: str | dict[str, Any] | None = None


class ToolCall(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A call in an earlier answer."""

    function: ToolCallFunction
    id: str | None = None
    type: str | None = None


class ChatMessage(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One message of the conversation. Members that no template reads are dropped, and so is null."""

    role: str
    content: str | list[ContentPart] | None = None
    name: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[ToolCall] | None = None
    tool_call_id: str | None = None


class ChatRequest(GenerationFields, kw_only=True):
    """POST /v1/chat/completions."""

    messages: list[ChatMessage]
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: str | dict[str, Any] | None = None
    reasoning_effort: str | float | None = None
    add_generation_prompt: bool | None = None
    continue_final_message: bool | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    logprobs: Refused = None
    reasoning: Refused = None
    thinking: Refused = None
    chat_template: Refused = None
    functions: Refused = None
    function_call: Refused = None
    modalities: Refused = None
    audio: Refused = None
    prediction: Refused = None
    web_search_options: Refused = None
    input_ids: Refused = None
    documents: Refused = None
    task: Refused = None


class AnswerMessage(msgspec.Struct, frozen=True, kw_only=True):
    """The model's message."""

    role: Literal["assistant"] = "assistant"
    content: str


class ChatChoice(msgspec.Struct, frozen=True, kw_only=True):
    """One answer. `matched_stop` is SGLang's: the stop string or token id that ended it."""

    index: int
    message: AnswerMessage
    logprobs: None = None
    finish_reason: str
    matched_stop: int | str | None


class ChatResponse(msgspec.Struct, frozen=True, kw_only=True):
    """The whole response."""

    id: str
    object: Literal["chat.completion"] = "chat.completion"
    created: int
    model: str
    choices: list[ChatChoice]
    usage: Usage


class Delta(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a chunk adds to a message; a member is there only when it says something."""

    role: str | None = None
    content: str | None = None


class ChunkChoice(msgspec.Struct, frozen=True, kw_only=True):
    """A chunk's only choice."""

    index: int
    delta: Delta
    logprobs: None = None
    finish_reason: str | None = None
    matched_stop: int | str | msgspec.UnsetType | None = msgspec.UNSET


class ChatChunk(msgspec.Struct, frozen=True, kw_only=True):
    """One event of a stream. `usage` is absent unless asked for, and null before there is something to count."""

    id: str
    object: Literal["chat.completion.chunk"] = "chat.completion.chunk"
    created: int
    model: str
    choices: list[ChunkChoice]
    usage: Usage | msgspec.UnsetType | None = msgspec.UNSET
