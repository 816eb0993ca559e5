"""A response request, as OpenAI spells it. What comes back is in answer.py and events.py beside this."""

from typing import Annotated, Any, Literal

import msgspec

from srt.entrypoints.openai.chat.protocol import MAX_MESSAGES
from srt.entrypoints.openai.logprobs import NumLogprobs
from srt.entrypoints.openai.request import Name
from srt.entrypoints.refused_fields import Hint, Refused
from srt.entrypoints.scheduling_fields import SchedulingFields

# What `include` calls the log-probabilities of a text.
LOGPROBS = "message.output_text.logprobs"


class Part(msgspec.Struct, kw_only=True):
    """A part of a content: input_text, output_text, reasoning_text or summary_text. Others are refused by type."""

    type: str
    text: str | None = None
    annotations: Hint = None
    logprobs: Hint = None
    prompt_cache_breakpoint: Hint = None


class Item(msgspec.Struct, kw_only=True):
    """One item of the input: message, function_call, function_call_output or reasoning. Others are refused by type."""

    type: str | None = None  # left out: a message
    id: Hint = None
    status: Hint = None
    phase: Hint = None
    # message
    role: str | None = None
    content: str | list[Part] | None = None
    # function_call, function_call_output
    call_id: str | None = None
    name: str | None = None
    arguments: str | None = None
    output: str | list[Part] | None = None
    # reasoning
    summary: list[Part] | None = None
    encrypted_content: Hint = None


class FunctionTool(msgspec.Struct, kw_only=True):
    """A function that the client runs. Tools that a server would run are refused by type."""

    type: str
    name: str | None = None
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None
    allowed_callers: Hint = None
    output_schema: Hint = None
    is_async: Hint = msgspec.field(name="async", default=None)
    defer_loading: Refused = None


class AllowedTool(msgspec.Struct, kw_only=True):
    """A function that may be called."""

    type: str
    name: str | None = None


class ToolChoice(msgspec.Struct, kw_only=True):
    """A function that must be called, or (`allowed_tools`) those that may be, or one of which must."""

    type: str
    name: str | None = None
    mode: Literal["auto", "required"] | None = None
    tools: list[AllowedTool] | None = None


class TextFormat(msgspec.Struct, kw_only=True):
    """The form of the answer: text, json_object or json_schema."""

    type: str
    name: str | None = None
    description: str | None = None
    schema: dict[str, Any] | None = None
    strict: bool | None = None


class TextConfig(msgspec.Struct, kw_only=True):
    """How the answer's text is to be."""

    format: TextFormat | None = None
    verbosity: Refused = None


class Reasoning(msgspec.Struct, kw_only=True):
    """How much to think. Thoughts come whole, as reasoning_text: there is nobody to summarise them."""

    effort: str | None = None
    summary: Refused = None
    generate_summary: Refused = None
    context: Refused = None
    mode: Refused = None


class StreamOptions(msgspec.Struct, kw_only=True):
    """Nothing is padded here, so there is no obfuscation to switch off."""

    include_obfuscation: Hint = None


class ResponsesRequest(SchedulingFields, kw_only=True):
    """POST /v1/responses. Nothing is stored: the client sends the whole conversation."""

    input: str | Annotated[list[Item], msgspec.Meta(max_length=MAX_MESSAGES)]
    model: Name | None = None
    instructions: str | None = None
    max_output_tokens: Annotated[int, msgspec.Meta(ge=1)] | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    temperature: float | None = None
    top_p: float | None = None
    text: TextConfig | None = None
    tools: list[FunctionTool] | None = None
    tool_choice: str | ToolChoice | None = None
    parallel_tool_calls: bool | None = None
    reasoning: Reasoning | None = None
    truncation: Literal["auto", "disabled"] | None = None
    metadata: dict[str, str] | None = None
    include: list[str] | None = None
    top_logprobs: NumLogprobs | None = None
    # Of no effect here, or only in OpenAI's own house.
    store: bool | None = None
    max_tool_calls: Hint = None
    service_tier: Hint = None
    prompt_cache_key: Hint = None
    prompt_cache_retention: Hint = None
    prompt_cache_options: Hint = None
    safety_identifier: Hint = None
    user: Hint = None
    # Needs a store, or what there is not
    previous_response_id: Refused = None
    conversation: Refused = None
    background: Refused = None
    background_options: Refused = None
    prompt: Refused = None
    context_management: Refused = None
    moderation: Refused = None
    image: Refused = None
    access_programs: Refused = None
    # Not OpenAI's: what every generating endpoint here takes.
    seed: int | None = None
    stop: str | list[str] | None = None
    top_k: int | None = None
    min_p: float | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    repetition_penalty: float | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    rid: str | None = None

    @property
    def wants_logprobs(self) -> bool:
        """Whether each token of the text is to be told of."""
        return bool(self.top_logprobs) or LOGPROBS in (self.include or ())
