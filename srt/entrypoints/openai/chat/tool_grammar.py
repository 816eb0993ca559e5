"""Grammars that make a model call as it was told to: `tool_choice` required or a name, and strict tools.

In the model's own words where its format spells arguments as JSON; otherwise a required call is an array of
`{"name", "parameters"}`, whatever the model learnt.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from srt.constrained.grammar_spec import GrammarSpec
from srt.entrypoints.openai.chat.tools import Tool, ToolUse
from srt.errors import InvalidRequest
from srt.parsers.tool_calls.format import ToolCallFormat

ANY_OBJECT = {"type": "object"}


def structural_tag(tag_format: Mapping[str, Any]) -> GrammarSpec:
    """xgrammar's structural tag around one of its formats."""
    tag = {"type": "structural_tag", "format": tag_format}
    return GrammarSpec(kind="structural_tag", text=msgspec.json.encode(tag).decode())


def required_calls(use: ToolUse, call_format: ToolCallFormat) -> GrammarSpec:
    """At least one call and first of all, exactly one unless they may be parallel, with arguments by their schema."""
    return structural_tag(_tags(use, call_format, is_needed=True, are_all_strict=True))


def required_array(use: ToolUse) -> GrammarSpec:
    """The same as a JSON array, for a format without a structure. Raises InvalidRequest for clashing `$defs`."""
    definitions: dict[str, dict[str, Any]] = {}
    calls = [_call_schema(tool, definitions) for tool in use.tools]
    schema = {
        "type": "array",
        "minItems": 1,
        **({} if use.is_parallel else {"maxItems": 1}),
        "items": {"anyOf": calls},
        **definitions,
    }
    return GrammarSpec(kind="json_schema", text=msgspec.json.encode(schema).decode())


def possible_calls(use: ToolUse, call_format: ToolCallFormat) -> GrammarSpec | None:
    """Any text, and any calls in it, those of strict tools by their schema. None if nothing is to be watched."""
    if call_format.structure is None or not any(tool.is_strict for tool in use.tools):
        return None
    return structural_tag(_tags(use, call_format, is_needed=False, are_all_strict=False))


def calls_or(answer: GrammarSpec, use: ToolUse, call_format: ToolCallFormat) -> GrammarSpec | None:
    """Either calls or an answer of this form; None if this format cannot say that."""
    answer_format = _as_format(answer)
    if call_format.structure is None or answer_format is None:
        return None
    calls = _tags(use, call_format, is_needed=True, are_all_strict=False)
    return structural_tag({"type": "or", "elements": [answer_format, calls]})


def _tags(
    use: ToolUse, call_format: ToolCallFormat, *, is_needed: bool, are_all_strict: bool
) -> dict[str, Any]:
    assert call_format.structure is not None, "a structural tag needs a format with a structure"
    triggers: dict[str, None] = {}
    tags = []
    for tool in use.tools:
        structure = call_format.structure(tool.name)
        triggers[structure.trigger] = None
        schema = tool.schema if tool.is_strict or are_all_strict else ANY_OBJECT
        content = {"type": "json_schema", "json_schema": schema}
        tags.append({"type": "tag", "begin": structure.begin, "content": content, "end": structure.end})
    return {
        "type": "triggered_tags",
        "triggers": list(triggers),
        "tags": tags,
        "at_least_one": is_needed,
        "stop_after_first": not use.is_parallel,
    }


def _as_format(grammar: GrammarSpec) -> Mapping[str, Any] | None:
    """A grammar as a part of a structural tag; None for a tag without a part of its own."""
    match grammar.kind:
        case "json_schema":
            return {"type": "json_schema", "json_schema": msgspec.json.decode(grammar.text)}
        case "regex":
            return {"type": "regex", "pattern": grammar.text}
        case "ebnf":
            return {"type": "grammar", "grammar": grammar.text}
        case "structural_tag":
            tag: Mapping[str, Any] = msgspec.json.decode(grammar.text)
            inner: Mapping[str, Any] | None = tag.get("format")
            return inner


def _call_schema(tool: Tool, definitions: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """One call. What the schema defines for itself moves to `definitions`, where its references look for it."""
    parameters = dict(tool.schema)
    for keyword in ("$defs", "definitions"):
        for name, definition in (parameters.pop(keyword, None) or {}).items():
            known = definitions.setdefault(keyword, {})
            if known.setdefault(name, definition) != definition:
                raise InvalidRequest(
                    f"two tools define {keyword}/{name} differently, which this model's calls cannot express",
                    param="tools",
                )
    return {
        "type": "object",
        "properties": {"name": {"const": tool.name}, "parameters": parameters},
        "required": ["name", "parameters"],
        "additionalProperties": False,
    }
