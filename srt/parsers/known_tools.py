"""`KnownTools`: which functions a model may call, and of what type a parameter is."""

from collections.abc import Mapping, Sequence
from typing import Any

# A schema that is wrong or unusual gives no types: every value is then as it looks.
Types = frozenset[str]


class KnownTools:
    """The tools of one request, as in its body. None means that nobody knows: every name is one."""

    __slots__ = ("_parameters",)

    def __init__(self, tools: Sequence[Mapping[str, Any]] | None) -> None:
        self._parameters: dict[str, Any] | None = None
        if tools is not None:
            functions = (_mapping(tool.get("function", tool)) for tool in tools)
            self._parameters = {
                str(function.get("name")): function.get("parameters") for function in functions
            }

    def has(self, name: str) -> bool:
        """Whether the model may call this."""
        if self._parameters is None:
            return bool(name) and name.isprintable()
        return name in self._parameters

    def types(self, name: str, parameter: str) -> Types:
        """The JSON types that a parameter may have, empty if its schema does not say."""
        schema = _mapping((self._parameters or {}).get(name))
        return _types(_mapping(schema.get("properties")).get(parameter))


def _types(schema: Any) -> Types:
    schema = _mapping(schema)
    declared = schema.get("type")
    if isinstance(declared, str):
        return frozenset((declared,))
    if isinstance(declared, list):
        return frozenset(name for name in declared if isinstance(name, str))
    values = schema.get("enum", [schema["const"]] if "const" in schema else None)
    if isinstance(values, list) and values and all(isinstance(value, str) for value in values):
        return frozenset(("string",))
    options = schema.get("anyOf") or schema.get("oneOf")
    if isinstance(options, list):
        found = [_types(option) for option in options]
        if all(found):
            return frozenset().union(*found)
    return frozenset()


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
