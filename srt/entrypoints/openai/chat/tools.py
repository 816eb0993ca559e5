"""The tools of a chat request, checked, and what `tool_choice` makes of them. Decides only."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from srt.errors import InvalidRequest

# OpenAI's characters and a dot, and length enough for names that carry the server they come from.
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")


class _Function(msgspec.Struct, kw_only=True):
    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class _Tool(msgspec.Struct, kw_only=True):
    type: str
    function: _Function | None = None


class _NamedFunction(msgspec.Struct, kw_only=True):
    name: str


class _NamedChoice(msgspec.Struct, kw_only=True):
    type: str
    function: _NamedFunction | None = None


@dataclass(frozen=True, kw_only=True)
class Tool:
    """A function that may be called. `schema` is that of its arguments."""

    name: str
    schema: Mapping[str, Any]
    is_strict: bool


@dataclass(frozen=True, kw_only=True)
class ToolUse:
    """What a request wants with tools: those that may be called, and whether one must be.

    `shown` is what the template gets: the client's own objects, in its order, but for nulls, which are nothing, and for
    `strict`, which is said to us.
    """

    tools: Sequence[Tool]
    shown: list[dict[str, Any]]
    mode: Literal["auto", "required"]
    is_parallel: bool


def to_tool_use(
    tools: Sequence[Mapping[str, Any]] | None,
    tool_choice: str | Mapping[str, Any] | None,
    *,
    parallel_tool_calls: bool | None,
) -> ToolUse | None:
    """None: nothing is to be called, and the model sees no tools. Raises InvalidRequest."""
    checked = [_checked(tool, f"tools[{i}]") for i, tool in enumerate(tools or ())]
    _check_unique(checked)
    choice = _to_choice(tool_choice)
    if not checked and choice not in ("auto", "none"):
        raise InvalidRequest("tool_choice needs tools", param="tool_choice")
    if not checked or choice == "none":
        return None
    shown = [_to_shown(tool) for tool in tools or ()]
    mode: Literal["auto", "required"] = "auto" if choice == "auto" else "required"
    if isinstance(choice, _NamedFunction):
        place = _place(choice.name, checked)
        checked, shown = [checked[place]], [shown[place]]
    return ToolUse(tools=checked, shown=shown, mode=mode, is_parallel=parallel_tool_calls is not False)


def _to_choice(
    tool_choice: str | Mapping[str, Any] | None,
) -> Literal["auto", "none", "required"] | _NamedFunction:
    """Raises InvalidRequest."""
    match tool_choice:
        case None | "auto":
            return "auto"
        case "none" | "required":
            return tool_choice
        case str():
            raise InvalidRequest(f"tool_choice: there is no {tool_choice[:40]!r}", param="tool_choice")
        case _:
            return _named_function(tool_choice)


def _named_function(tool_choice: Mapping[str, Any]) -> _NamedFunction:
    try:
        named = msgspec.convert(tool_choice, _NamedChoice)
    except msgspec.ValidationError as error:
        raise InvalidRequest(f"tool_choice: {error}", param="tool_choice") from None
    if named.type != "function" or named.function is None:
        raise InvalidRequest(
            f"tool_choice of type {named.type[:40]!r} is not supported by this server", param="tool_choice"
        )
    return named.function


def _place(name: str, tools: Sequence[Tool]) -> int:
    for i, tool in enumerate(tools):
        if tool.name == name:
            return i
    raise InvalidRequest(
        f"tool_choice: there is no tool {name[:128]!r} in tools", param="tool_choice.function.name"
    )


def _checked(given: Mapping[str, Any], path: str) -> Tool:
    try:
        tool = msgspec.convert(given, _Tool)
    except msgspec.ValidationError as error:
        message, _, place = str(error).partition(" - at `$")
        param = path + place.rstrip("`")
        raise InvalidRequest(f"{param}: {message}", param=param) from None
    if tool.type != "function":
        raise InvalidRequest(
            f"{path}.type: only functions are served, not {tool.type[:40]!r}", param=f"{path}.type"
        )
    function = tool.function
    if function is None:
        raise InvalidRequest(f"{path}.function is missing", param=f"{path}.function")
    if not _NAME.fullmatch(function.name):
        param = f"{path}.function.name"
        raise InvalidRequest(f"{param} must be 1 to 128 of A-Z a-z 0-9 _ . -", param=param)
    schema = function.parameters or {}
    if schema.get("type", "object") != "object":
        param = f"{path}.function.parameters"
        raise InvalidRequest(f"{param} must be the schema of an object", param=param)
    # Beside alternatives a type could not be enforced; they say themselves what they are.
    is_combined = any(keyword in schema for keyword in ("anyOf", "oneOf", "allOf", "$ref"))
    schema = schema if is_combined else {**schema, "type": "object"}
    return Tool(name=function.name, schema=schema, is_strict=bool(function.strict))


def _check_unique(tools: Sequence[Tool]) -> None:
    seen: set[str] = set()
    for i, tool in enumerate(tools):
        if tool.name in seen:
            param = f"tools[{i}].function.name"
            raise InvalidRequest(f"{param}: there are two tools named {tool.name!r}", param=param)
        seen.add(tool.name)


def _to_shown(tool: Mapping[str, Any]) -> dict[str, Any]:
    function = {
        name: value for name, value in tool["function"].items() if name != "strict" and value is not None
    }
    return {**tool, "function": function}
