"""A chat request, response and chunk, as OpenAI spells them."""

from typing import Annotated, Any, Literal

import msgspec

from srt.entrypoints.openai.logprobs import ChatLogprobs, NumLogprobs
from srt.entrypoints.openai.request import SYSTEM_FINGERPRINT, GenerationFields
from srt.entrypoints.openai.usage import Usage
from srt.entrypoints.refused_fields import Hint, Refused


class ContentPart(msgspec.Struct, kw_only=True):
    """One part of a message's content. Only text is served."""

    type: str
    text: str | None = None
    refusal: str | None = None


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
    reasoning: str | None = None
    refusal: str | None = None
    tool_calls: list[ToolCall] | None = None
    tool_call_id: str | None = None
    function_call: Refused = None
    audio: Refused = None


class ReasoningOptions(msgspec.Struct, kw_only=True):
    """How much to think: OpenRouter's and SGLang's object for `reasoning_effort`."""

    effort: str | float | None = None
    enabled: bool | None = None


class ThinkingOptions(msgspec.Struct, kw_only=True):
    """Whether to think, in the words of some models' own APIs."""

    type: Literal["enabled", "disabled"]


# They are taken apart on the event loop, which serves everybody: this many take four milliseconds, or ten with parts.
MAX_MESSAGES = 8192


class ChatRequest(GenerationFields, kw_only=True):
    """POST /v1/chat/completions."""

    messages: Annotated[list[ChatMessage], msgspec.Meta(max_length=MAX_MESSAGES)]
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    logprobs: bool | None = None
    top_logprobs: NumLogprobs | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: str | dict[str, Any] | None = None
    parallel_tool_calls: bool | None = None
    reasoning_effort: str | float | None = None
    reasoning: ReasoningOptions | None = None
    thinking: ThinkingOptions | bool | None = None
    separate_reasoning: bool | None = None
    stream_reasoning: bool | None = None
    include_reasoning: bool | None = None
    add_generation_prompt: bool | None = None
    continue_final_message: bool | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    input_ids: list[int] | None = None
    prediction: Hint = None  # may make an answer come sooner, never another one
    chat_template: Refused = None
    functions: Refused = None
    function_call: Refused = None
    modalities: Refused = None
    audio: Refused = None
    verbosity: Refused = None
    web_search_options: Refused = None
    documents: Refused = None
    echo: Refused = None
    add_special_tokens: Refused = None
    thinking_token_budget: Refused = None
    moderation: Refused = None
    mm_processor_kwargs: Refused = None
    media_io_kwargs: Refused = None
    max_dynamic_patch: Refused = None
    min_dynamic_patch: Refused = None
    use_audio_in_video: Refused = None
    task: Refused = None


class AnswerFunction(msgspec.Struct, frozen=True, kw_only=True):
    """What is called, with the arguments as the model spelled them: JSON, in a string."""

    name: str
    arguments: str


class AnswerCall(msgspec.Struct, frozen=True, kw_only=True):
    """One call of an answer."""

    id: str
    type: Literal["function"] = "function"
    function: AnswerFunction


class AnswerMessage(msgspec.Struct, frozen=True, kw_only=True):
    """The model's message. Reasoning and calls are members only where there are any."""

    role: Literal["assistant"] = "assistant"
    content: str | None
    reasoning_content: str | msgspec.UnsetType = msgspec.UNSET
    tool_calls: list[AnswerCall] | msgspec.UnsetType = msgspec.UNSET


class ChatChoice(msgspec.Struct, frozen=True, kw_only=True):
    """One answer. `matched_stop` is SGLang's: the stop string or token id that ended it; so are the ids."""

    index: int
    message: AnswerMessage
    logprobs: ChatLogprobs | None = None
    finish_reason: str
    matched_stop: int | str | None
    prompt_token_ids: list[int] | msgspec.UnsetType = msgspec.UNSET
    response_token_ids: list[int] | msgspec.UnsetType = msgspec.UNSET


class ChatResponse(msgspec.Struct, frozen=True, kw_only=True):
    """The whole response."""

    id: str
    object: Literal["chat.completion"] = "chat.completion"
    created: int
    model: str
    system_fingerprint: str = SYSTEM_FINGERPRINT
    choices: list[ChatChoice]
    usage: Usage


class FunctionDelta(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The name, once, or more of the arguments."""

    name: str | None = None
    arguments: str | None = None


class CallDelta(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a chunk adds to the `index`-th call: first who is called and under which id, then arguments."""

    index: int
    id: str | None = None
    type: str | None = None
    function: FunctionDelta


class Delta(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a chunk adds to a message; a member is there only when it says something."""

    role: str | None = None
    content: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[CallDelta] | None = None


class ChunkChoice(msgspec.Struct, frozen=True, kw_only=True):
    """A chunk's only choice."""

    index: int
    delta: Delta
    logprobs: ChatLogprobs | None = None
    finish_reason: str | None = None
    matched_stop: int | str | msgspec.UnsetType | None = msgspec.UNSET


class ChatChunk(msgspec.Struct, frozen=True, kw_only=True):
    """One event of a stream. `usage` is absent unless asked for, and null before there is something to count."""

    id: str
    object: Literal["chat.completion.chunk"] = "chat.completion.chunk"
    created: int
    model: str
    system_fingerprint: str = SYSTEM_FINGERPRINT
    choices: list[ChunkChoice]
    usage: Usage | msgspec.UnsetType | None = msgspec.UNSET
