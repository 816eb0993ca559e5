"""The tools of a chat request, checked, and what `tool_choice` makes of them. Decides only."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple

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


class _NamedTool(msgspec.Struct, kw_only=True):
    type: str
    function: _NamedFunction | None = None


class _AllowedTools(msgspec.Struct, kw_only=True):
    mode: Literal["auto", "required"]
    tools: Annotated[list[_NamedTool], msgspec.Meta(min_length=1)]


class _ObjectChoice(_NamedTool, kw_only=True):
    allowed_tools: _AllowedTools | None = None


class _Choice(NamedTuple):
    """`names` None: any tool; else these, at `path` in the body."""

    mode: Literal["auto", "none", "required"]
    names: Sequence[str] | None = None
    path: str = "tool_choice"


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
    if not checked and (choice.mode == "required" or choice.names is not None):
        raise InvalidRequest("tool_choice needs tools", param="tool_choice")
    if not checked or choice.mode == "none":
        return None
    shown = [_to_shown(tool) for tool in tools or ()]
    if choice.names is not None:
        places = sorted({_place(name, checked, choice.path) for name in choice.names})
        checked, shown = [checked[i] for i in places], [shown[i] for i in places]
    return ToolUse(tools=checked, shown=shown, mode=choice.mode, is_parallel=parallel_tool_calls is not False)


def _to_choice(tool_choice: str | Mapping[str, Any] | None) -> _Choice:
    """Raises InvalidRequest."""
    match tool_choice:
        case None:
            return _Choice("auto")
        case "auto" | "none" | "required":
            return _Choice(tool_choice)
        case str():
            raise InvalidRequest(f"tool_choice: there is no {tool_choice[:40]!r}", param="tool_choice")
        case _:
            return _object_choice(tool_choice)


def _object_choice(tool_choice: Mapping[str, Any]) -> _Choice:
    try:
        choice = msgspec.convert(tool_choice, _ObjectChoice)
    except msgspec.ValidationError as error:
        raise InvalidRequest(f"tool_choice: {error}", param="tool_choice") from None
    match choice:
        case _ObjectChoice(type="function", function=_NamedFunction(name=name)):
            return _Choice("required", [name], "tool_choice.function.name")
        case _ObjectChoice(type="allowed_tools", allowed_tools=_AllowedTools(mode=mode, tools=tools)):
            names = [tool.function.name for tool in tools if tool.type == "function" and tool.function]
            if len(names) < len(tools):
                raise InvalidRequest(
                    "tool_choice: only functions are served", param="tool_choice.allowed_tools.tools"
                )
            return _Choice(mode, names, "tool_choice.allowed_tools.tools")
        case _:
            raise InvalidRequest(
                f"tool_choice of type {choice.type[:40]!r} is not supported by this server, or lacks its member",
                param="tool_choice",
            )


def _place(name: str, tools: Sequence[Tool], path: str) -> int:
    for i, tool in enumerate(tools):
        if tool.name == name:
            return i
    raise InvalidRequest(f"tool_choice: there is no tool {name[:128]!r} in tools", param=path)


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
