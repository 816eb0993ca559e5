"""A message request, its answer and the events of a stream, as Anthropic spells them."""

from typing import Annotated, Any, Literal

import msgspec

from srt.entrypoints.openai.chat.protocol import MAX_MESSAGES
from srt.entrypoints.openai.request import Name
from srt.entrypoints.refused_fields import Hint, Refused
from srt.entrypoints.scheduling_fields import Priority, TimeoutS


class Block(msgspec.Struct, kw_only=True):
    """One block of a message's content: text, tool_use, tool_result or thinking. Others are refused by their type."""

    type: str
    text: str | None = None
    # tool_use
    id: str | None = None
    name: str | None = None
    input: dict[str, Any] | None = None
    # tool_result
    tool_use_id: str | None = None
    content: "str | list[Block] | None" = None
    is_error: bool | None = None
    toolset_name: Hint = None
    # thinking
    thinking: str | None = None
    signature: Hint = None
    cache_control: Hint = None
    caller: Hint = None
    citations: Refused = None


# Each can become a message of its own, and they are taken apart on the event loop.
Blocks = Annotated[list[Block], msgspec.Meta(max_length=MAX_MESSAGES)]


class MessageParam(msgspec.Struct, kw_only=True):
    """One turn. Turns of the same role that follow each other are one."""

    role: Literal["user", "assistant", "system"]
    content: str | Blocks


class Tool(msgspec.Struct, kw_only=True):
    """A tool that the client runs. `type` is "custom" or left out; tools that a server would run are refused."""

    name: str
    type: str | None = None
    description: str | None = None
    input_schema: dict[str, Any] | None = None
    strict: bool | None = None
    cache_control: Hint = None
    input_examples: Hint = None
    eager_input_streaming: Hint = None
    allowed_callers: Hint = None
    defer_loading: Refused = None


class ToolChoice(msgspec.Struct, kw_only=True):
    """Whether tools may or must be used, and which."""

    type: Literal["auto", "any", "tool", "none"]
    name: str | None = None
    disable_parallel_tool_use: bool | None = None


class Thinking(msgspec.Struct, kw_only=True):
    """Whether the model thinks first. `budget_tokens` is a wish that is not enforced."""

    type: Literal["enabled", "disabled", "adaptive"]
    budget_tokens: Annotated[int, msgspec.Meta(ge=1)] | None = None
    display: Literal["summarized", "omitted"] | None = None


class OutputFormat(msgspec.Struct, kw_only=True):
    """The form of the answer."""

    type: Literal["json_schema"]
    schema: dict[str, Any]


class OutputConfig(msgspec.Struct, kw_only=True):
    """How much effort, and in which form."""

    effort: Literal["low", "medium", "high", "xhigh", "max"] | None = None
    format: OutputFormat | None = None
    task_budget: Refused = None


class Metadata(msgspec.Struct, kw_only=True):
    """Whom this is for. Taken, and not looked at."""

    user_id: str | None = None


class CountTokensRequest(msgspec.Struct, kw_only=True):
    """POST /v1/messages/count_tokens: all that makes a prompt."""

    model: Name
    messages: Annotated[list[MessageParam], msgspec.Meta(max_length=MAX_MESSAGES)]
    system: str | Blocks | None = None
    tools: list[Tool] | None = None
    tool_choice: ToolChoice | None = None
    thinking: Thinking | None = None
    output_config: OutputConfig | None = None
    cache_control: Hint = None
    speed: Hint = None
    betas: Hint = None
    user_profile_id: Hint = None
    workspace_id: Hint = None
    mcp_servers: Refused = None
    context_management: Refused = None
    diagnostics: Refused = None


class MessagesRequest(CountTokensRequest, kw_only=True):
    """POST /v1/messages."""

    max_tokens: Annotated[int, msgspec.Meta(ge=1)]
    stream: bool | None = None
    stop_sequences: list[str] | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    metadata: Metadata | None = None
    service_tier: Hint = None
    inference_geo: Hint = None
    container: Refused = None
    # Not Anthropic's: what every generating endpoint here takes.
    rid: str | None = None
    cache_salt: str | None = None
    extra_key: str | None = None
    priority: Priority | None = None
    timeout_s: TimeoutS | None = None
    routed_dp_rank: int | None = None
    data_parallel_rank: int | None = None


class CountTokensResponse(msgspec.Struct, frozen=True, kw_only=True):
    """How many tokens the prompt has, the template's own among them."""

    input_tokens: int


class MessageUsage(msgspec.Struct, frozen=True, kw_only=True):
    """Token counts. The prompt is `input_tokens` and `cache_read_input_tokens` together."""

    input_tokens: int
    output_tokens: int
    cache_read_input_tokens: int
    cache_creation_input_tokens: int = 0


class TextBlock(msgspec.Struct, frozen=True, tag="text", kw_only=True):
    """A piece of the answer."""

    text: str


class ThinkingBlock(msgspec.Struct, frozen=True, tag="thinking", kw_only=True):
    """What the model thought aloud. The signature is empty: there is nothing to prove."""

    thinking: str
    signature: str = ""


class ToolUseBlock(msgspec.Struct, frozen=True, tag="tool_use", kw_only=True):
    """A call that the client is to run."""

    id: str
    name: str
    input: dict[str, Any]


AnswerBlock = TextBlock | ThinkingBlock | ToolUseBlock
StopReason = Literal["end_turn", "max_tokens", "stop_sequence", "tool_use", "model_context_window_exceeded"]


class MessageResponse(msgspec.Struct, frozen=True, tag="message", kw_only=True):
    """The whole answer, and what a stream begins with."""

    id: str
    role: Literal["assistant"] = "assistant"
    model: str
    content: list[AnswerBlock]
    stop_reason: StopReason | None
    stop_sequence: str | None
    usage: MessageUsage


class MessageStart(msgspec.Struct, frozen=True, tag="message_start", kw_only=True):
    """A stream begins."""

    message: MessageResponse


class BlockStart(msgspec.Struct, frozen=True, tag="content_block_start", kw_only=True):
    """A block begins, with nothing in it yet."""

    index: int
    content_block: AnswerBlock


class TextDelta(msgspec.Struct, frozen=True, tag="text_delta"):
    """More of a text block."""

    text: str


class ThinkingDelta(msgspec.Struct, frozen=True, tag="thinking_delta"):
    """More of a thinking block."""

    thinking: str


class InputJsonDelta(msgspec.Struct, frozen=True, tag="input_json_delta"):
    """More of the JSON of a tool_use block's input."""

    partial_json: str


class SignatureDelta(msgspec.Struct, frozen=True, tag="signature_delta"):
    """The signature of a thinking block, before it ends."""

    signature: str


class BlockDelta(msgspec.Struct, frozen=True, tag="content_block_delta", kw_only=True):
    """More of a block."""

    index: int
    delta: TextDelta | ThinkingDelta | InputJsonDelta | SignatureDelta


class BlockStop(msgspec.Struct, frozen=True, tag="content_block_stop", kw_only=True):
    """A block is complete."""

    index: int


class StopDelta(msgspec.Struct, frozen=True, kw_only=True):
    """Why the message ended."""

    stop_reason: StopReason
    stop_sequence: str | None


class MessageDelta(msgspec.Struct, frozen=True, tag="message_delta", kw_only=True):
    """The message is complete; the counts are final."""

    delta: StopDelta
    usage: MessageUsage


class MessageStop(msgspec.Struct, frozen=True, tag="message_stop"):
    """A stream ends."""


StreamEvent = MessageStart | BlockStart | BlockDelta | BlockStop | MessageDelta | MessageStop


class ErrorDetails(msgspec.Struct, frozen=True, kw_only=True):
    """What went wrong."""

    type: str
    message: str


class ErrorMessage(msgspec.Struct, frozen=True, tag="error", kw_only=True):
    """Every error under /v1/messages, as a body and as a stream's last event."""

    error: ErrorDetails
