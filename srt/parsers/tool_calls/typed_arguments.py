"""Arguments that a model writes as bare text between markers, one by one: made into one JSON object.

The tool's schema says what a text is. Strings are passed on as they come; all else is held until it is whole, because
only then can it be told what it is.
"""

import json

from srt.parsers.json_scanner import JsonScanner, escape_controls
from srt.parsers.known_tools import Types
from srt.parsers.markers import Markers
from srt.parsers.text_reader import Reading
from srt.parsers.tool_calls.format import CallReading

STRING = frozenset(("string",))
# How Python, and models, spell what JSON spells otherwise.
_SPELLINGS = {"True": "true", "False": "false", "None": "null"}
_KINDS = {"{": "object", "[": "array", '"': "string", "t": "boolean", "f": "boolean", "n": "null"}


class TypedArguments:
    """The object of one call. It begins with the call, and is whole with `end`."""

    __slots__ = ("_name", "_reading", "_separator", "_value_ends")

    def __init__(self, reading: CallReading, name: str, value_ends: Markers) -> None:
        self._reading = reading
        self._name = name
        self._value_ends = value_ends
        self._separator = "{"
        reading.begin_call(name)

    def read_value(
        self, key: str, *, types: Types | None = None, default: Types = frozenset()
    ) -> Reading[str | None]:
        """The argument `key`, whose text comes next; the marker that ended it, None if the answer did.

        Its types are `types`, or what the schema says, or `default`.
        """
        writer = self._reading.writer
        writer.arguments(f"{self._separator}{_quoted(key)}: ")
        self._separator = ", "
        if types is None:
            types = self._reading.tools.types(self._name, key) or default
        if types == STRING:
            writer.arguments('"')
            end = yield from self._reading.reader.read_until(
                self._value_ends, lambda text: writer.arguments(_quoted(text)[1:-1])
            )
            writer.arguments('"' if end is not None else "")
            return end
        pieces: list[str] = []
        end = yield from self._reading.reader.read_until(self._value_ends, pieces.append)
        text = "".join(pieces)
        writer.arguments(to_json(text, types) if end is not None else _beginning_of_json(text, types))
        return end

    def end(self) -> None:
        """The call is whole."""
        self._reading.writer.arguments("{}" if self._separator == "{" else "}")
        self._reading.writer.end()


def to_json(text: str, types: Types) -> str:
    """A value of one of these types if the text is one, otherwise a string of it. No types: as it looks."""
    value = text.strip()
    value = _SPELLINGS.get(value, value)
    scanner = JsonScanner()
    is_json = scanner.scan(value, 0) == len(value) and scanner.may_end
    if is_json and _fits(value, types):
        return escape_controls(value, scanner.raw_controls)
    return _quoted(text)


def _beginning_of_json(text: str, types: Types) -> str:
    """What is known of a value that was cut off."""
    value = text.lstrip()
    scanner = JsonScanner()
    if scanner.scan(value, 0) == len(value) and _fits(value, types):
        return escape_controls(value, scanner.raw_controls)
    return _quoted(text)[:-1]


def _fits(value: str, types: Types) -> bool:
    if not types or not value:
        return not types
    kind = _KINDS.get(value[0], "number")
    if kind == "number" and "integer" in types:
        return "number" in types or not any(character in value for character in ".eE")
    # Quotes of a text that may be a string are part of it.
    return kind != "string" and kind in types


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
