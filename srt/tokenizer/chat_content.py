"""What a chat template expects of a message, and a message turned into that.

Clients send content as text or as a list of parts, and tool arguments as JSON text; templates differ in what they read.
"""

import json
from collections.abc import Mapping
from typing import Any, Literal

from jinja2 import nodes

from srt.errors import InvalidRequest

# "openai": the template walks a list of parts itself. "string": it expects text.
ContentFormat = Literal["string", "openai"]

# Between text parts that are joined for a template that expects text.
PART_SEPARATOR = "\n"


def content_format(template: nodes.Template) -> ContentFormat:
    """ "openai" if the template has a loop over a message's content, directly or through a variable."""
    aliases = _names_of_content(template)
    loops = template.find_all(nodes.For)
    return "openai" if any(_is_content(loop.iter, aliases) for loop in loops) else "string"


def _names_of_content(template: nodes.Template) -> set[str]:
    """Variables set to a content; macro parameters called so are handed one."""
    names = {argument.name for macro in template.find_all(nodes.Macro) for argument in macro.args}
    names &= {"content"}
    for assignment in template.find_all(nodes.Assign):
        if isinstance(assignment.target, nodes.Name) and _is_content(assignment.node, names):
            names.add(assignment.target.name)
    return names


def _is_content(node: nodes.Node | None, aliases: set[str]) -> bool:
    while isinstance(node, nodes.Filter | nodes.Test):
        node = node.node
    if isinstance(node, nodes.Name):
        return node.name in aliases
    if isinstance(node, nodes.Getattr):
        return node.attr == "content"
    return (
        isinstance(node, nodes.Getitem) and isinstance(node.arg, nodes.Const) and node.arg.value == "content"
    )


def normalise_message(
    message: Mapping[str, Any], wanted: ContentFormat, *, path: str = "messages"
) -> dict[str, Any]:
    """The message as the template may be given it. Raises InvalidRequest for parts that are not text.

    `path` is what errors call the message.

    Fields that are null and empty lists of tool calls are left out: templates test whether they are there. Content
    is always there, because templates rarely test for it.
    """
    copied = {name: value for name, value in message.items() if value is not None}
    content = copied.setdefault("content", "")
    if isinstance(content, list):
        texts = [_part_text(part, f"{path}.content[{i}]") for i, part in enumerate(content)]
        if wanted == "string":
            copied["content"] = PART_SEPARATOR.join(texts)
        else:
            copied["content"] = [{"type": "text", "text": text} for text in texts]
    calls = copied.pop("tool_calls", None)
    if calls:
        copied["tool_calls"] = [
            _with_parsed_arguments(call, f"{path}.tool_calls[{i}].function.arguments")
            for i, call in enumerate(calls)
        ]
    return copied


def _part_text(part: Any, path: str) -> str:
    if isinstance(part, str):
        return part
    if isinstance(part, Mapping) and part.get("type", "text") == "text" and isinstance(part.get("text"), str):
        text: str = part["text"]
        return text
    kind = part.get("type") if isinstance(part, Mapping) else type(part).__name__
    raise InvalidRequest(f"{path}: content of type {kind} is not supported, only text", param=path)


def _with_parsed_arguments(call: Any, path: str) -> Any:
    """Tool arguments arrive as JSON text; templates go through them as an object."""
    function = call.get("function") if isinstance(call, Mapping) else None
    if not isinstance(function, Mapping) or not isinstance(function.get("arguments"), str):
        return call
    try:
        # An empty text is what clients send for a call without arguments.
        arguments = json.loads(function["arguments"] or "{}")
    except (ValueError, RecursionError) as error:
        raise InvalidRequest(
            f"{path}: the arguments of tool call {function.get('name')} are not JSON: {error}", param=path
        ) from error
    return {**call, "function": {**function, "arguments": arguments}}
