"""A message request in OpenAI's words: what follows is the chat endpoint's business.

Anthropic's conversations have the system prompt beside the messages, results of tools inside the user's, and a last
message of the assistant that is to be continued.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from srt.entrypoints.anthropic.protocol import (
    Block,
    CountTokensRequest,
    MessagesRequest,
    Thinking,
    Tool,
)
from srt.entrypoints.openai.chat.protocol import MAX_MESSAGES, ChatRequest
from srt.entrypoints.refused_fields import refuse_fields
from srt.errors import InvalidRequest

# The engine's and OpenAI's names of fields, to Anthropic's.
FIELD_NAMES = {
    "max_new_tokens": "max_tokens",
    "max_completion_tokens": "max_tokens",
    "stop": "stop_sequences",
    "parallel_tool_calls": "tool_choice.disable_parallel_tool_use",
    "reasoning_effort": "output_config.effort",
    "response_format": "output_config.format",
    "continue_final_message": "messages",
}


def to_chat_request(body: CountTokensRequest) -> ChatRequest:
    """Check what types cannot say, and translate. Raises InvalidRequest."""
    refuse_fields(body)
    if not body.messages:
        raise InvalidRequest("messages must not be empty", param="messages")
    messages = _to_messages(body)
    if len(messages) > MAX_MESSAGES:
        raise InvalidRequest(f"messages has more than {MAX_MESSAGES} turns and results", param="messages")
    wire: dict[str, Any] = {"model": body.model, "messages": messages}
    if body.messages[-1].role == "assistant":
        wire["continue_final_message"] = True
    if body.tools:
        wire["tools"] = [_to_tool(tool, f"tools[{i}]") for i, tool in enumerate(body.tools)]
    wire |= _tool_choice(body) | _reasoning(body.thinking) | _output_config(body)
    if isinstance(body, MessagesRequest):
        wire |= _settings(body)
    return msgspec.convert(wire, ChatRequest)


def _settings(body: MessagesRequest) -> dict[str, Any]:
    """How to sample and to schedule."""
    thinking = body.thinking
    if (
        thinking is not None
        and thinking.budget_tokens is not None
        and thinking.budget_tokens >= body.max_tokens
    ):
        raise InvalidRequest(
            "thinking.budget_tokens must be less than max_tokens", param="thinking.budget_tokens"
        )
    if body.temperature is not None and body.temperature > 1.0:
        raise InvalidRequest("temperature must be between 0 and 1", param="temperature")
    return {
        "max_completion_tokens": body.max_tokens,
        "stop": body.stop_sequences,
        "stream": body.stream,
        **{
            name: getattr(body, name)
            for name in (
                *("temperature", "top_p", "top_k"),
                *("rid", "cache_salt", "extra_key", "priority", "timeout_s"),
            )
        },
    }


def _reasoning(thinking: Thinking | None) -> dict[str, Any]:
    """Left out, it is up to the model's template."""
    if thinking is None:
        return {}
    return {"thinking": {"type": "disabled" if thinking.type == "disabled" else "enabled"}}


def _output_config(body: CountTokensRequest) -> dict[str, Any]:
    config = body.output_config
    if config is None:
        return {}
    refuse_fields(config, within="output_config.")
    wire: dict[str, Any] = {}
    if config.effort is not None:
        wire["reasoning_effort"] = config.effort
    if config.format is not None:
        schema = {"name": "answer", "schema": config.format.schema}
        wire["response_format"] = {"type": "json_schema", "json_schema": schema}
    return wire


def _tool_choice(body: CountTokensRequest) -> dict[str, Any]:
    choice = body.tool_choice
    if choice is None:
        return {}
    wire: dict[str, Any] = {}
    if choice.disable_parallel_tool_use:
        wire["parallel_tool_calls"] = False
    match choice.type:
        case "any":
            wire["tool_choice"] = "required"
        case "tool":
            if choice.name is None:
                raise InvalidRequest("tool_choice.name is missing", param="tool_choice.name")
            wire["tool_choice"] = {"type": "function", "function": {"name": choice.name}}
        case other:
            wire["tool_choice"] = other
    return wire


def _to_tool(tool: Tool, path: str) -> dict[str, Any]:
    if tool.type not in (None, "custom"):
        raise InvalidRequest(
            f"{path}.type: this server runs no tools, so there is no {tool.type[:40]!r}", param=f"{path}.type"
        )
    refuse_fields(tool, within=f"{path}.")
    if tool.input_schema is None:
        raise InvalidRequest(f"{path}.input_schema is missing", param=f"{path}.input_schema")
    function: dict[str, Any] = {"name": tool.name, "parameters": tool.input_schema}
    if tool.description is not None:
        function["description"] = tool.description
    if tool.strict is not None:
        function["strict"] = tool.strict
    return {"type": "function", "function": function}


def _to_messages(body: CountTokensRequest) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []
    if body.system:
        messages.append({"role": "system", "content": _texts(body.system, "system")})
    tool_names: dict[str, str] = {}
    for i, turn in enumerate(body.messages):
        path = f"messages[{i}].content"
        if isinstance(turn.content, str) or turn.role == "system":
            written = [{"role": turn.role, "content": _texts(turn.content, path)}]
        elif turn.role == "assistant":
            written = [_to_assistant(turn.content, path, tool_names)]
        else:
            written = _to_user(turn.content, path, tool_names)
        for message in written:
            _append(messages, message)
    return [_with_joined_thoughts(message) for message in messages]


def _with_joined_thoughts(message: dict[str, Any]) -> dict[str, Any]:
    """Thoughts are collected piece by piece, so that many turns cost no more than their length."""
    thoughts = message.get("reasoning_content")
    return message if thoughts is None else {**message, "reasoning_content": "".join(thoughts)}


def _append(messages: list[dict[str, Any]], message: dict[str, Any]) -> None:
    """Add a message; to the last one, if both are turns of the same kind, which some templates would refuse."""
    last = messages[-1] if messages else None
    if last is None or last["role"] != message["role"] or message["role"] == "tool":
        messages.append(message)
        return
    if not isinstance(last["content"], list):
        last["content"] = _as_parts(last["content"])
    last["content"] += _as_parts(message["content"])
    for name in ("tool_calls", "reasoning_content"):
        if name in message:
            last.setdefault(name, []).extend(message[name])


def _as_parts(content: Any) -> list[Any]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return content or []


def _to_assistant(blocks: Sequence[Block], path: str, tool_names: dict[str, str]) -> dict[str, Any]:
    parts, calls, thoughts = [], [], []
    for i, block in enumerate(blocks):
        place = f"{path}[{i}]"
        match block.type:
            case "text":
                parts.append(_text_part(block, place))
            case "thinking":
                thoughts.append(_required(block.thinking, f"{place}.thinking"))
            case "tool_use":
                name = _required(block.name, f"{place}.name")
                call_id = _required(block.id, f"{place}.id")
                tool_names[call_id] = name
                arguments = msgspec.json.encode(block.input or {}).decode()
                function = {"name": name, "arguments": arguments}
                calls.append({"id": call_id, "type": "function", "function": function})
            case other:
                raise _refusal(other, place, "an assistant's message")
    message: dict[str, Any] = {"role": "assistant", "content": parts or None}
    if calls:
        message["tool_calls"] = calls
    if thoughts:
        message["reasoning_content"] = thoughts
    return message


def _to_user(blocks: Sequence[Block], path: str, tool_names: Mapping[str, str]) -> list[dict[str, Any]]:
    """Results of tools are messages of their own, in the place where they stand."""
    messages: list[dict[str, Any]] = []
    for i, block in enumerate(blocks):
        place = f"{path}[{i}]"
        match block.type:
            case "text":
                _append(messages, {"role": "user", "content": [_text_part(block, place)]})
            case "tool_result":
                messages.append(_to_tool_message(block, place, tool_names))
            case other:
                raise _refusal(other, place, "a user's message")
    return messages or [{"role": "user", "content": ""}]


def _to_tool_message(block: Block, place: str, tool_names: Mapping[str, str]) -> dict[str, Any]:
    call_id = _required(block.tool_use_id, f"{place}.tool_use_id")
    content = _texts(block.content or "", f"{place}.content")
    if block.is_error:
        # Templates have no word for it, and the model has to know.
        content = [{"type": "text", "text": "Error:"}, *_as_parts(content)]
    message = {"role": "tool", "tool_call_id": call_id, "content": content}
    if call_id in tool_names:
        message["name"] = tool_names[call_id]
    return message


def _texts(content: str | Sequence[Block], path: str) -> str | list[dict[str, Any]]:
    """Content where only text may be."""
    if isinstance(content, str):
        return content
    for i, block in enumerate(content):
        if block.type != "text":
            raise _refusal(block.type, f"{path}[{i}]", "this place")
    return [_text_part(block, f"{path}[{i}]") for i, block in enumerate(content)]


def _text_part(block: Block, place: str) -> dict[str, Any]:
    refuse_fields(block, harmless={"citations": {"enabled": False}}, within=f"{place}.")
    return {"type": "text", "text": _required(block.text, f"{place}.text")}


def _required(value: str | None, path: str) -> str:
    if value is None:
        raise InvalidRequest(f"{path} is missing", param=path)
    return value


def _refusal(kind: str, place: str, where: str) -> InvalidRequest:
    return InvalidRequest(f"{place}: a block of type {kind[:40]!r} is not served in {where}", param=place)
