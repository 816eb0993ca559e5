"""Llama 4 and others: a list of calls as Python spells them, `[f(a=1), g(b="x")]`, which is the whole answer.

Arguments are literals. A call is told when it is whole, because only then can it be read.
"""

import ast
import json
import re
import warnings
from enum import Enum, auto
from typing import Any

from srt.parsers.markers import Markers
from srt.parsers.text_reader import Reading
from srt.parsers.tool_calls.format import CallReading, ToolCallFormat

BEGIN = "<|python_start|>"
END = "<|python_end|>"
_BEGIN_MARKERS = Markers((BEGIN,))
_PLAIN_CODE = re.compile(r"""[^'"()\[\]{}]*""")
_PLAIN_STRING = re.compile(r"""[^'"\\]*""")
# Whatever Python may raise about a text that is none of its expressions, or too deep.
_NOT_PYTHON = (SyntaxError, ValueError, TypeError, MemoryError, RecursionError)


def read(reading: CallReading) -> Reading[None]:
    """Content and calls. Without the marker only an answer that begins with a call is a list of calls."""
    reader, writer = reading.reader, reading.writer
    reader.remember()
    yield from _read_list(reading)
    reading.give_back()
    while (marker := (yield from reader.read_until(_BEGIN_MARKERS, writer.content))) is not None:
        reader.remember(marker)
        yield from _read_list(reading)
        reading.give_back()


def _read_list(reading: CallReading) -> Reading[None]:
    reader = reading.reader
    yield from reader.skip_whitespace()
    if not (yield from reader.accept("[")):
        return
    yield from reader.skip_whitespace()
    while (yield from _read_call(reading)):
        reader.remember()
        yield from reader.skip_whitespace()
        if not (yield from reader.accept(",")):
            if (yield from reader.accept("]")):
                reader.forget()
                yield from reader.skip_whitespace()
                yield from reader.accept_end(END)
            return
        yield from reader.skip_whitespace()


def _read_call(reading: CallReading) -> Reading[bool]:
    reader = reading.reader
    name = yield from reader.read_name()
    if not reading.tools.has(name) or not (yield from reader.accept("(")):
        return False
    pieces: list[str] = []
    if not (yield from reader.read_value(_Parenthesis(), pieces.append)):
        return False
    arguments = to_json_object("".join(pieces)[:-1])
    if arguments is None:
        return False
    reading.begin_call(name)
    reading.writer.arguments(arguments)
    reading.writer.end()
    return True


def to_json_object(arguments: str) -> str | None:
    """Keyword arguments as a JSON object; None if they are not literals, or cannot be said in JSON."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # "\d" in a string is worth one
            call = ast.parse(f"f({arguments}\n)", mode="eval").body
        if not isinstance(call, ast.Call) or call.args:
            return None
        values = {keyword.arg: _plain(ast.literal_eval(keyword.value)) for keyword in call.keywords}
        if None in values or len(values) < len(call.keywords):
            return None
        text = json.dumps(values, ensure_ascii=False, allow_nan=False)
        # Half a surrogate pair has no bytes, only an escape.
        return json.dumps(values) if any("\ud800" <= character <= "\udfff" for character in text) else text
    except _NOT_PYTHON:
        return None


def _plain(value: Any) -> Any:
    """A literal that JSON has, too. Raises TypeError for another."""
    match value:
        case dict():
            if not all(isinstance(key, str) for key in value):
                raise TypeError("an object's keys are strings")
            return {key: _plain(member) for key, member in value.items()}
        case list() | tuple():
            return [_plain(member) for member in value]
        case None | bool() | int() | float() | str():
            return value
        case _:
            raise TypeError(f"JSON has no {type(value).__name__}")


class _Place(Enum):
    CODE = auto()
    ONE_QUOTE = auto()  # an opening one: a string, or more will come
    TWO_QUOTES = auto()  # an empty string, or a third will come
    STRING = auto()
    ESCAPE = auto()
    OUTSIDE = auto()


class _Parenthesis:
    """Where the parenthesis closes that was just opened. Knows brackets and strings, nothing else of Python."""

    __slots__ = ("_num_open", "_num_quotes", "_place", "_quote", "_quotes_seen", "is_broken", "raw_controls")

    def __init__(self) -> None:
        self._place = _Place.CODE
        self._num_open = 1
        self._quote = ""
        self._num_quotes = 1  # of the string: one or three
        self._quotes_seen = 0  # towards its end
        self.is_broken = False
        self.raw_controls: list[int] = []

    @property
    def is_whole(self) -> bool:
        """It is closed."""
        return self._place is _Place.OUTSIDE

    @property
    def may_end(self) -> bool:
        """The same."""
        return self.is_whole

    def scan(self, text: str, position: int) -> int:
        """Go on at `position`; where it closes, or the text's length."""
        while position < len(text) and self._place is not _Place.OUTSIDE:
            pattern = {_Place.CODE: _PLAIN_CODE, _Place.STRING: _PLAIN_STRING}.get(self._place)
            found = None if pattern is None else pattern.match(text, position)
            if found is not None and found.end() > position:
                position = found.end()
                self._quotes_seen = 0
            else:
                position += self._step(text[position])
        return position

    def _step(self, character: str) -> int:
        """One character; 0 if it is to be looked at again."""
        match self._place:
            case _Place.CODE:
                self._in_code(character)
            case _Place.ONE_QUOTE if character == self._quote:
                self._place = _Place.TWO_QUOTES
            case _Place.ONE_QUOTE:
                self._place = _Place.STRING
                return 0
            case _Place.TWO_QUOTES if character == self._quote:
                self._place, self._num_quotes = _Place.STRING, 3
            case _Place.TWO_QUOTES:
                self._place = _Place.CODE
                return 0
            case _Place.ESCAPE:
                self._place = _Place.STRING
            case _:
                self._in_string(character)
        return 1

    def _in_code(self, character: str) -> None:
        if character in "'\"":
            self._place, self._quote, self._num_quotes, self._quotes_seen = _Place.ONE_QUOTE, character, 1, 0
        elif character in "([{":
            self._num_open += 1
        else:
            self._num_open -= 1
            if not self._num_open:
                self._place = _Place.OUTSIDE

    def _in_string(self, character: str) -> None:
        if character == "\\":
            self._place, self._quotes_seen = _Place.ESCAPE, 0
        elif character == self._quote:
            self._quotes_seen += 1
            if self._quotes_seen == self._num_quotes:
                self._place = _Place.CODE
        else:
            self._quotes_seen = 0


FORMAT = ToolCallFormat(name="pythonic", read=read)
