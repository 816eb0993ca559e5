"""A response request in the words of chat: what follows is the chat endpoint's business.

Here a conversation is a row of items; there, what the assistant thought, said and called in one turn is one message.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from srt.entrypoints.openai.chat.protocol import MAX_MESSAGES, ChatRequest
from srt.entrypoints.openai.responses.protocol import (
    LOGPROBS,
    AllowedTool,
    FunctionTool,
    Item,
    Part,
    ResponsesRequest,
    ToolChoice,
)
from srt.entrypoints.refused_fields import refuse_fields
from srt.errors import InvalidRequest

# The engine's and chat's names of fields, to this API's.
FIELD_NAMES = {
    "max_new_tokens": "max_output_tokens",
    "max_completion_tokens": "max_output_tokens",
    "max_tokens": "max_output_tokens",
    "messages": "input",
    "reasoning_effort": "reasoning.effort",
    "response_format": "text.format",
    "response_format.json_schema.schema": "text.format.schema",
    "tool_choice.function.name": "tool_choice.name",
    "tool_choice.allowed_tools.tools": "tool_choice.tools",
}
_ROLES = ("user", "assistant", "system", "developer")
# Thoughts are never kept here, so they are sent back as they came: the answer has them in plain text.
_INCLUDABLE = ("reasoning.encrypted_content", LOGPROBS)
_SAME_NAME = (
    *("model", "stream", "temperature", "top_p", "parallel_tool_calls", "seed", "stop", "top_k", "min_p"),
    *("frequency_penalty", "presence_penalty", "repetition_penalty", "chat_template_kwargs"),
    *("rid", "cache_salt", "extra_key", "priority", "timeout_s"),
)


def to_chat_request(body: ResponsesRequest) -> ChatRequest:
    """Check what types cannot say, and translate. Raises InvalidRequest."""
    _check(body)
    wire: dict[str, Any] = {name: getattr(body, name) for name in _SAME_NAME}
    wire["messages"] = _to_messages(body)
    wire["max_completion_tokens"] = body.max_output_tokens
    if body.tools:
        wire["tools"] = [_to_tool(tool, f"tools[{i}]") for i, tool in enumerate(body.tools)]
    if isinstance(body.tool_choice, ToolChoice):
        wire["tool_choice"] = _to_tool_choice(body.tool_choice)
    else:
        wire["tool_choice"] = body.tool_choice
    if body.wants_logprobs:
        wire |= {"logprobs": True, "top_logprobs": body.top_logprobs}
    if body.reasoning is not None:
        wire["reasoning_effort"] = body.reasoning.effort
    if body.text is not None and body.text.format is not None:
        wire["response_format"] = _to_response_format(body)
    return msgspec.convert(wire, ChatRequest)


def _check(body: ResponsesRequest) -> None:
    for name in ("previous_response_id", "conversation", "background"):
        if getattr(body, name):
            raise InvalidRequest(
                f"{name} is not supported: this server stores no responses; send the whole conversation as input",
                param=name,
            )
    refuse_fields(body)
    if body.reasoning is not None:
        refuse_fields(
            body.reasoning, harmless={"summary": "auto", "generate_summary": "auto"}, within="reasoning."
        )
    if body.text is not None:
        refuse_fields(body.text, harmless={"verbosity": "medium"}, within="text.")
    if body.truncation == "auto":
        raise InvalidRequest("truncation must be disabled: this server drops no input", param="truncation")
    for i, name in enumerate(body.include or ()):
        if name not in _INCLUDABLE:
            raise InvalidRequest(
                f"include[{i}]: {name[:60]!r} is not supported by this server", param="include"
            )


def _to_tool(tool: FunctionTool, path: str) -> dict[str, Any]:
    if tool.type != "function":
        raise InvalidRequest(
            f"{path}.type: this server runs no tools, so there is no {tool.type[:40]!r}", param=f"{path}.type"
        )
    refuse_fields(tool, within=f"{path}.")
    function = {"name": _required(tool.name, f"{path}.name")}
    optional = {"description": tool.description, "parameters": tool.parameters, "strict": tool.strict}
    given = {name: value for name, value in optional.items() if value is not None}
    return {"type": "function", "function": {**function, **given}}


def _to_tool_choice(choice: ToolChoice) -> dict[str, Any]:
    if choice.type == "allowed_tools":
        tools = [_to_named_tool(tool, f"tool_choice.tools[{i}]") for i, tool in enumerate(choice.tools or ())]
        if not tools:
            raise InvalidRequest("tool_choice.tools is missing", param="tool_choice.tools")
        return {
            "type": "allowed_tools",
            "allowed_tools": {"mode": _required(choice.mode, "tool_choice.mode"), "tools": tools},
        }
    return _to_named_tool(choice, "tool_choice")


def _to_named_tool(choice: ToolChoice | AllowedTool, path: str) -> dict[str, Any]:
    if choice.type != "function":
        raise InvalidRequest(
            f"{path}.type: {choice.type[:40]!r} is not supported by this server", param=f"{path}.type"
        )
    return {"type": "function", "function": {"name": _required(choice.name, f"{path}.name")}}


def _to_response_format(body: ResponsesRequest) -> dict[str, Any]:
    assert body.text is not None, "checked by the caller"
    assert body.text.format is not None, "checked by the caller"
    match body.text.format:
        case form if form.type in ("text", "json_object"):
            return {"type": form.type}
        case form if form.type == "json_schema":
            if form.schema is None:
                raise InvalidRequest("text.format.schema is missing", param="text.format.schema")
            return {"type": "json_schema", "json_schema": {"name": form.name, "schema": form.schema}}
        case form:
            raise InvalidRequest(
                f"text.format.type: there is no type {form.type[:40]!r}", param="text.format.type"
            )


def _to_messages(body: ResponsesRequest) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []
    if body.instructions:
        messages.append({"role": "system", "content": body.instructions})
    if isinstance(body.input, str):
        messages.append({"role": "user", "content": body.input})
        return messages
    if not body.input:
        raise InvalidRequest("input must not be empty", param="input")
    tool_names: dict[str, str] = {}
    for i, item in enumerate(body.input):
        _add_item(messages, item, f"input[{i}]", tool_names)
    if len(messages) > MAX_MESSAGES:
        raise InvalidRequest(f"input and instructions are more than {MAX_MESSAGES} messages", param="input")
    return [_with_joined_thoughts(message) for message in messages]


def _with_joined_thoughts(message: dict[str, Any]) -> dict[str, Any]:
    """Thoughts are collected piece by piece, so that many items cost no more than their length."""
    thoughts = message.get("reasoning_content")
    return message if thoughts is None else {**message, "reasoning_content": "".join(thoughts)}


def _add_item(messages: list[dict[str, Any]], item: Item, path: str, tool_names: dict[str, str]) -> None:
    match item.type or "message":
        case "message":
            role = _required(item.role, f"{path}.role")
            if role not in _ROLES:
                raise InvalidRequest(f"{path}.role: there is no role {role[:40]!r}", param=f"{path}.role")
            content = _texts(item.content, f"{path}.content")
            if role == "assistant":
                _assistant_turn(messages)["content"] += _as_parts(content)
            else:
                messages.append({"role": role, "content": content})
        case "reasoning":
            thoughts = item.content if item.content else item.summary
            texts = _as_parts(_texts(thoughts or "", f"{path}.content"))
            collected = _assistant_turn(messages).setdefault("reasoning_content", [])
            collected += [part["text"] for part in texts]
        case "function_call":
            function = {
                "name": _required(item.name, f"{path}.name"),
                "arguments": _required(item.arguments, f"{path}.arguments"),
            }
            call_id = _required(item.call_id, f"{path}.call_id")
            calls = _assistant_turn(messages).setdefault("tool_calls", [])
            tool_names[call_id] = function["name"]
            calls.append({"id": call_id, "type": "function", "function": function})
        case "function_call_output":
            call_id = _required(item.call_id, f"{path}.call_id")
            content = _texts(item.output, f"{path}.output")
            # Some templates write whose result this is.
            named = {"name": tool_names[call_id]} if call_id in tool_names else {}
            messages.append({"role": "tool", "tool_call_id": call_id, "content": content, **named})
        case other:
            raise InvalidRequest(
                f"{path}.type: an item of type {other[:40]!r} is not served", param=f"{path}.type"
            )


def _assistant_turn(messages: list[dict[str, Any]]) -> dict[str, Any]:
    """The assistant's message at the end, where more of the same turn goes; a new one if somebody else spoke."""
    if not messages or messages[-1]["role"] != "assistant":
        messages.append({"role": "assistant", "content": []})
    return messages[-1]


_TEXT_PARTS = ("input_text", "output_text", "reasoning_text", "summary_text", "text")


def _texts(content: str | Sequence[Part] | None, path: str) -> str | list[dict[str, Any]]:
    if content is None:
        raise InvalidRequest(f"{path} is missing", param=path)
    if isinstance(content, str):
        return content
    for i, part in enumerate(content):
        if part.type not in _TEXT_PARTS:
            raise InvalidRequest(
                f"{path}[{i}]: only text is served, not {part.type[:40]!r}", param=f"{path}[{i}]"
            )
    return [
        {"type": "text", "text": _required(part.text, f"{path}[{i}].text")} for i, part in enumerate(content)
    ]


def _as_parts(content: str | list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _required(value: str | None, path: str) -> str:
    if value is None:
        raise InvalidRequest(f"{path} is missing", param=path)
    return value
