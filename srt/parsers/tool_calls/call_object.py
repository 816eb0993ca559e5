"""Calls in JSON: `{"name": …, "arguments": {…}}` in any order of keys, or the arguments alone.

The arguments pass as the model spells them. A call begins with its arguments, not with its name, so that whatever
turns out to be none can still be given back as content; it is whole when its arguments are.
"""

import json

from srt.parsers.text_reader import Reading
from srt.parsers.tool_calls.format import CallReading

ARGUMENT_KEYS = ("arguments", "parameters")
NO_ARGUMENTS = "{}"


# What a call may have beside its name and arguments, if nothing in front of it says that it is one.
HARMLESS_KEYS = ("id", "type")


def read_call_object(reading: CallReading, *, has_marker: bool = True) -> Reading[bool]:
    """One call. False if it is none or not whole; what breaks it is unread."""
    call = _CallObject(reading, has_marker=has_marker)
    is_closed = yield from _read_members(call)
    return call.is_whole or (is_closed and call.try_end())


def read_call_array(reading: CallReading) -> Reading[None]:
    """Calls up to the end of their array, whose beginning is read. What breaks it is unread."""
    reader = reading.reader
    yield from reader.skip_whitespace()
    while (yield from read_call_object(reading)):
        reader.remember()
        yield from reader.skip_whitespace()
        if not (yield from reader.accept(",")):
            if (yield from reader.accept("]")):
                reader.forget()
            return
        yield from reader.skip_whitespace()


def read_arguments(reading: CallReading, name: str, call_id: str | None = None) -> Reading[bool]:
    """The arguments of a call whose name is known. False as above."""
    call = _CallObject(reading, name=name, call_id=call_id)
    yield from reading.reader.skip_whitespace()
    is_closed = yield from _read_arguments(call)
    return call.is_whole or (is_closed and call.try_end())


class _CallObject:
    """What is known of a call."""

    __slots__ = ("call_id", "early_arguments", "has_arguments", "has_marker", "is_whole", "name", "reading")

    def __init__(
        self,
        reading: CallReading,
        *,
        name: str | None = None,
        call_id: str | None = None,
        has_marker: bool = True,
    ) -> None:
        self.reading = reading
        self.has_marker = has_marker
        self.name = name
        self.call_id = call_id
        self.early_arguments: list[str] = []  # that came before the name
        self.has_arguments = False
        self.is_whole = False

    @property
    def has_known_name(self) -> bool:
        """Whether it says what to call, and may."""
        return self.name is not None and self.reading.tools.has(self.name)

    def begin(self) -> None:
        """The name is known, the arguments come."""
        assert self.name is not None, "a call begins when its name is known"
        self.reading.begin_call(self.name, self.call_id)

    def end(self) -> None:
        """The arguments were whole."""
        self.reading.writer.end()
        self.is_whole = True

    def try_end(self) -> bool:
        """All is read, and the call had not begun: its arguments came before its name, or there were none."""
        if not self.has_known_name:
            return False
        self.begin()
        self.reading.writer.arguments("".join(self.early_arguments) or NO_ARGUMENTS)
        self.end()
        return True


def _read_members(call: _CallObject) -> Reading[bool]:
    """An object; whether it is whole."""
    reader = call.reading.reader
    if not (yield from reader.accept("{")):
        return False
    yield from reader.skip_whitespace()
    if (yield from reader.accept("}")):
        return True
    while (yield from _read_member(call)):
        yield from reader.skip_whitespace()
        if not (yield from reader.accept(",")):
            return (yield from reader.accept("}"))
        yield from reader.skip_whitespace()
    return False


def _read_member(call: _CallObject) -> Reading[bool]:
    reader = call.reading.reader
    key = yield from reader.read_string()
    if key is None:
        return False
    yield from reader.skip_whitespace()
    if not (yield from reader.accept(":")):
        return False
    yield from reader.skip_whitespace()
    if key == "name" and call.name is None:
        call.name = yield from reader.read_string()
        return call.has_known_name
    if key in ARGUMENT_KEYS and not call.has_arguments:
        return (yield from _read_arguments(call))
    if key not in HARMLESS_KEYS and not call.has_marker:
        return False
    return (yield from reader.read_json(_ignore))


def _read_arguments(call: _CallObject) -> Reading[bool]:
    reader, writer = call.reading.reader, call.reading.writer
    if call.name is not None and not call.has_known_name:
        return False
    match (yield from reader.peek()):
        case "{" if call.name is None:
            call.has_arguments = True
            return (yield from reader.read_json(call.early_arguments.append))
        case "{":
            call.has_arguments = True
            call.begin()
            if not (yield from reader.read_json(writer.arguments)):
                return False
            call.end()
            return True
        case '"':
            # Some models write the object into a string, as the API does.
            text = yield from reader.read_string()
            if text is None or not is_json_object(text):
                return False
            call.has_arguments = True
            call.early_arguments.append(text)
            return call.name is None or call.try_end()
        case "n":
            return (yield from reader.read_json(_ignore))
        case _:
            return False


def is_json_object(text: str) -> bool:
    """Whether a text is a whole JSON object, and can be sent."""
    try:
        text.encode()
        return isinstance(json.loads(text, parse_int=str, parse_constant=_refuse), dict)
    except (ValueError, RecursionError):
        return False


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def _ignore(text: str) -> None:
    """Members that say nothing about the call, such as an id or a type."""
