"""What a client may say of its answer's form, as a GrammarSpec.

Checked is what every form has in common, that it is JSON where it must be; what it means, the compiler knows.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from srt.constrained.grammar_spec import GrammarSpec
from srt.errors import InvalidRequest

ANY_OBJECT = GrammarSpec(kind="json_schema", text='{"type":"object"}')
MAX_CHOICES = 1024


def json_schema_grammar(schema: Any, *, param: str) -> GrammarSpec:
    """A JSON schema, as an object or as its text. Raises InvalidRequest."""
    return GrammarSpec(kind="json_schema", text=_object_text(schema, "a JSON schema", param))


def structural_tag_grammar(tag: Any, *, param: str) -> GrammarSpec:
    """xgrammar's structural tag, of today or of former days, as an object or as its text. Raises InvalidRequest."""
    text = _object_text(tag, "a structural tag", param)
    parsed = msgspec.json.decode(text)
    return structural_tag(_of_today(parsed, param)) if "structures" in parsed else _tag_as_it_is(text)


def structural_tag(tag_format: Mapping[str, Any]) -> GrammarSpec:
    """xgrammar's structural tag around one of its formats."""
    tag = {"type": "structural_tag", "format": tag_format}
    return _tag_as_it_is(msgspec.json.encode(tag).decode())


def choice_grammar(choices: Sequence[str], *, param: str) -> GrammarSpec:
    """One of these texts, and nothing else. Raises InvalidRequest."""
    if not choices or "" in choices or len(choices) > MAX_CHOICES:
        raise InvalidRequest(f"{param} needs 1 to {MAX_CHOICES} texts, none of them empty", param=param)
    alternatives = " | ".join(msgspec.json.encode(choice).decode() for choice in choices)
    return GrammarSpec(kind="ebnf", text=f"root ::= {alternatives}")


def _tag_as_it_is(text: str) -> GrammarSpec:
    return GrammarSpec(kind="structural_tag", text=text)


class _Structure(msgspec.Struct, kw_only=True):
    begin: str
    end: str
    schema: dict[str, Any] | str = {}


class _OlderTag(msgspec.Struct, kw_only=True):
    structures: list[_Structure]
    triggers: list[str]


def _of_today(tag: Any, param: str) -> dict[str, Any]:
    """The format that says what the older way to write a structural tag says."""
    try:
        older = msgspec.convert(tag, _OlderTag)
    except msgspec.ValidationError as error:
        raise InvalidRequest(f"{param}: {error}", param=param) from None
    tags = [
        {
            "type": "tag",
            "begin": structure.begin,
            "content": {
                "type": "json_schema",
                "json_schema": msgspec.json.decode(_object_text(structure.schema, "a JSON schema", param)),
            },
            "end": structure.end,
        }
        for structure in older.structures
    ]
    return {"type": "triggered_tags", "triggers": older.triggers, "tags": tags}


def _object_text(value: Any, what: str, param: str) -> str:
    """The JSON text of an object that came as itself or as text."""
    parsed = value
    if isinstance(value, str):
        try:
            parsed = msgspec.json.decode(value)
        except (msgspec.DecodeError, RecursionError) as error:
            raise InvalidRequest(f"{param} is not valid JSON: {error}", param=param) from None
    if not isinstance(parsed, dict):
        raise InvalidRequest(f"{param} must be {what}, which is an object", param=param)
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
