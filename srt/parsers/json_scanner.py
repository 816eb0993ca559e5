"""`JsonScanner`: where a JSON value ends in text that arrives in pieces, and whether it is one.

Looks at every character once and keeps none of them. Numbers, escapes and blanks are checked, not read.
"""

import json
import re
from collections.abc import Mapping, Sequence
from enum import Enum, auto
from typing import Protocol

WHITESPACE = " \t\r\n"

_SPACES = re.compile(f"[{WHITESPACE}]*")
_PLAIN_STRING = re.compile(r'[^"\\\x00-\x1f]*')
_DIGITS = re.compile(r"[0-9]*")
# A number or literal whose end is seen: most are. Only what a piece cuts is followed character by character.
_WHOLE_SCALAR = re.compile(
    rf"(?:-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?|true|false|null)(?=[{WHITESPACE},\]}}])"
)
_HEX_DIGITS = "0123456789abcdefABCDEF"
_LITERALS: Mapping[str, str] = {"t": "true", "f": "false", "n": "null"}
_CLOSING: Mapping[str, str] = {"{": "}", "[": "]"}


class _Next(Enum):
    """What may come next."""

    VALUE = auto()
    ITEM_OR_END = auto()  # behind [
    KEY_OR_END = auto()  # behind {
    KEY = auto()  # behind a comma in an object
    COLON = auto()
    COMMA_OR_END = auto()
    STRING = auto()  # inside one
    ESCAPE = auto()  # behind a backslash
    HEX = auto()  # behind \u
    LITERAL = auto()  # inside true, false or null
    NUMBER = auto()
    NOTHING = auto()


# A number by its parts: of each, what may follow. A digit in a place of "digits" stays there.
_NUMBER_STEPS: Mapping[str, Mapping[str, str]] = {
    "start": {"-": "minus", "0": "zero", "digit": "integer"},
    "minus": {"0": "zero", "digit": "integer"},
    "zero": {".": "point", "e": "exponent"},
    "integer": {"0": "integer", "digit": "integer", ".": "point", "e": "exponent"},
    "point": {"0": "fraction", "digit": "fraction"},
    "fraction": {"0": "fraction", "digit": "fraction", "e": "exponent"},
    "exponent": {"-": "sign", "+": "sign", "0": "power", "digit": "power"},
    "sign": {"0": "power", "digit": "power"},
    "power": {"0": "power", "digit": "power"},
}
_NUMBER_ENDS = ("zero", "integer", "fraction", "power")
_NUMBER_RUNS = ("integer", "fraction", "power")


class Scanner(Protocol):
    """Where a value ends that is written in some notation. See JsonScanner."""

    is_broken: bool
    raw_controls: list[int]

    @property
    def is_whole(self) -> bool:
        """The value has ended."""
        ...

    @property
    def may_end(self) -> bool:
        """If the text ends here, the value is whole."""
        ...

    def scan(self, text: str, position: int) -> int:
        """Go on at `position`; where the value ends or breaks, or the text's length."""
        ...


class JsonScanner:
    """One value, from its first character to its last. Blanks before it are taken, too; behind it, nothing is."""

    __slots__ = (
        "_hex_left",
        "_is_key",
        "_literal_left",
        "_next",
        "_number",
        "_open",
        "is_broken",
        "raw_controls",
    )

    def __init__(self) -> None:
        self._next = _Next.VALUE
        self._open: list[str] = []  # the brackets around this place
        self._is_key = False
        self._hex_left = 0
        self._literal_left = ""
        self._number = "start"
        self.is_broken = False  # the character behind what was taken is none that may be there
        # Where in the text of the last `scan` a string has a control character. JSON forbids it, models write it.
        self.raw_controls: list[int] = []

    @property
    def is_whole(self) -> bool:
        """The value has ended. Of a number only the next character tells."""
        return self._next is _Next.NOTHING

    @property
    def may_end(self) -> bool:
        """If the text ends here, the value is whole."""
        return self.is_whole or (
            self._next is _Next.NUMBER and not self._open and self._number in _NUMBER_ENDS
        )

    def scan(self, text: str, position: int) -> int:
        """Go on at `position`; where the value ends or breaks, or the text's length."""
        self.raw_controls = []
        while position < len(text) and self._next is not _Next.NOTHING and not self.is_broken:
            match self._next:
                case _Next.STRING:
                    position = self._in_string(text, position)
                case _Next.NUMBER:
                    position = self._in_number(text, position)
                case _Next.ESCAPE | _Next.HEX | _Next.LITERAL:
                    position = self._in_token(text[position], position)
                case _:
                    position = _end_of(_SPACES, text, position)
                    if position < len(text):
                        position = self._between(text, position)
        return position

    def _between(self, text: str, position: int) -> int:
        """A character that is part of no value: a bracket, comma or colon, or the first of a value."""
        character = text[position]
        match self._next:
            case _Next.KEY_OR_END | _Next.KEY if character == '"':
                self._next, self._is_key = _Next.STRING, True
            case _Next.KEY_OR_END if character == "}":
                self._close()
            case _Next.ITEM_OR_END if character == "]":
                self._close()
            case _Next.VALUE | _Next.ITEM_OR_END:
                return self._begin_value(text, position)
            case _Next.COLON if character == ":":
                self._next = _Next.VALUE
            case _Next.COMMA_OR_END if character == ",":
                self._next = _Next.KEY if self._open[-1] == "{" else _Next.VALUE
            case _Next.COMMA_OR_END if character == _CLOSING[self._open[-1]]:
                self._close()
            case _:
                self.is_broken = True
                return position
        return position + 1

    def _begin_value(self, text: str, position: int) -> int:
        character = text[position]
        if character == '"':
            self._next, self._is_key = _Next.STRING, False
        elif character in _CLOSING:
            self._open.append(character)
            self._next = _Next.KEY_OR_END if character == "{" else _Next.ITEM_OR_END
        elif (scalar := _WHOLE_SCALAR.match(text, position)) is not None:
            self._end_value()
            return scalar.end()
        elif character in _LITERALS:
            self._next, self._literal_left = _Next.LITERAL, _LITERALS[character][1:]
        elif character == "-" or "0" <= character <= "9":
            self._next, self._number = _Next.NUMBER, "start"
            return position  # the number's own steps take it
        else:
            self.is_broken = True
            return position
        return position + 1

    def _close(self) -> None:
        self._open.pop()
        self._end_value()

    def _end_value(self) -> None:
        self._next = _Next.COMMA_OR_END if self._open else _Next.NOTHING

    def _in_string(self, text: str, position: int) -> int:
        position = _end_of(_PLAIN_STRING, text, position)
        if position == len(text):
            return position
        match text[position]:
            case '"':
                if self._is_key:
                    self._next = _Next.COLON
                else:
                    self._end_value()
            case "\\":
                self._next = _Next.ESCAPE
            case _:
                self.raw_controls.append(position)
        return position + 1

    def _in_token(self, character: str, position: int) -> int:
        """One character of an escape, or of true, false or null."""
        match self._next:
            case _Next.ESCAPE if character == "u":
                self._next, self._hex_left = _Next.HEX, 4
            case _Next.ESCAPE if character in '"\\/bfnrt':
                self._next = _Next.STRING
            case _Next.HEX if character in _HEX_DIGITS:
                self._hex_left -= 1
                if not self._hex_left:
                    self._next = _Next.STRING
            case _Next.LITERAL if character == self._literal_left[0]:
                self._literal_left = self._literal_left[1:]
                if not self._literal_left:
                    self._end_value()
            case _:
                self.is_broken = True
                return position
        return position + 1

    def _in_number(self, text: str, position: int) -> int:
        if self._number in _NUMBER_RUNS:
            position = _end_of(_DIGITS, text, position)
            if position == len(text):
                return position
        character = text[position]
        kind = "digit" if "1" <= character <= "9" else character.lower()
        step = _NUMBER_STEPS[self._number].get(kind)
        if step is not None:
            self._number = step
            return position + 1
        if self._number in _NUMBER_ENDS:
            self._end_value()
        else:
            self.is_broken = True
        return position


def _end_of(pattern: re.Pattern[str], text: str, position: int) -> int:
    found = pattern.match(text, position)
    assert found is not None, "these patterns match the empty text, too"
    return found.end()


def escape_controls(text: str, controls: Sequence[int]) -> str:
    """The text with the control characters at these places written as JSON wants them."""
    if not controls:
        return text
    pieces: list[str] = []
    start = 0
    for position in controls:
        pieces += (text[start:position], json.dumps(text[position])[1:-1])
        start = position + 1
    return "".join((*pieces, text[start:]))
