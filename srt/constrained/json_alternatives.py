"""`are_exclusive`: whether no value can match two of several schemas, as far as that can be seen."""

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

from srt.constrained.json_keywords import TYPES, has_type
from srt.constrained.json_types import Narrowed, Schema

_ALL = frozenset(TYPES) - {"integer"}


def are_exclusive(alternatives: Sequence[Schema], definitions: Mapping[str, Schema]) -> bool:
    """Of rewritten schemas. By their types, their fixed values, or a property that tells them apart.

    What the grammar of one lets through must not match another as the client wrote it.
    """
    return all(_exclude(one, other, definitions) for one, other in combinations(alternatives, 2))


def _exclude(one: Schema, other: Schema, definitions: Mapping[str, Schema]) -> bool:
    first, second = _resolved(one, definitions), _resolved(other, definitions)
    if not (_types(first) & _original_types(second) or _types(second) & _original_types(first)):
        return True
    if isinstance(first, bool) or isinstance(second, bool):
        return False
    for schema, against in ((first, second), (second, first)):
        if "anyOf" in schema:
            return all(_exclude(each, against, definitions) for each in schema["anyOf"])
    if "enum" in first and "enum" in second:
        return not any(value == fixed for value in first["enum"] for fixed in second["enum"])
    return _is_told_apart(first, second, definitions)


def _is_told_apart(
    first: Mapping[str, Any], second: Mapping[str, Any], definitions: Mapping[str, Schema]
) -> bool:
    """Two objects that both must have a property, which cannot be the same in both."""
    if first.get("type") != "object" or second.get("type") != "object":
        return False
    common = set(first.get("required", ())) & set(second.get("required", ()))
    return any(
        _exclude(first["properties"][name], second["properties"][name], definitions)
        for name in sorted(common)
        if "enum" in _fixed(first["properties"][name]) and "enum" in _fixed(second["properties"][name])
    )


def _fixed(schema: Schema) -> Mapping[str, Any]:
    return {} if isinstance(schema, bool) else schema


def _resolved(schema: Schema, definitions: Mapping[str, Schema]) -> Schema:
    for _ in range(len(definitions) + 1):
        if isinstance(schema, bool) or "$ref" not in schema:
            return schema
        schema = definitions[schema["$ref"].removeprefix("#/$defs/")]
    return True


def _original_types(schema: Schema) -> frozenset[str]:
    """Of what may match the schema that the client wrote."""
    if isinstance(schema, Narrowed):
        return _ALL
    if isinstance(schema, dict) and "anyOf" in schema:
        return frozenset[str]().union(*(_original_types(each) for each in schema["anyOf"]))
    return _types(schema)


def _types(schema: Schema) -> frozenset[str]:
    """Of what may match the rewritten one; integers count as numbers."""
    if isinstance(schema, bool):
        return _ALL if schema else frozenset()
    if "enum" in schema:
        return frozenset(each for each in _ALL if any(has_type(value, each) for value in schema["enum"]))
    if "anyOf" in schema:
        return frozenset[str]().union(*(_types(each) for each in schema["anyOf"]))
    if "type" in schema:
        return frozenset({"number" if schema["type"] == "integer" else schema["type"]})
    return _ALL
