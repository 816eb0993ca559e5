"""What a client may say of its answer's form, as a GrammarSpec.

Checked is what every form has in common, that it is JSON where it must be; what it means, the compiler knows.
"""

from collections.abc import Sequence
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
    """xgrammar's structural tag, as an object or as its text. Raises InvalidRequest."""
    return GrammarSpec(kind="structural_tag", text=_object_text(tag, "a structural tag", param))


def choice_grammar(choices: Sequence[str], *, param: str) -> GrammarSpec:
    """One of these texts, and nothing else. Raises InvalidRequest."""
    if not choices or "" in choices or len(choices) > MAX_CHOICES:
        raise InvalidRequest(f"{param} needs 1 to {MAX_CHOICES} texts, none of them empty", param=param)
    alternatives = " | ".join(msgspec.json.encode(choice).decode() for choice in choices)
    return GrammarSpec(kind="ebnf", text=f"root ::= {alternatives}")


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
