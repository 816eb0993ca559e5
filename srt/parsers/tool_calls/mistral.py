"""Mistral: `[TOOL_CALLS]` before an array of objects, or, newer, before each `name[ARGS]{…}`."""

import json

from srt.parsers.markers import Markers
from srt.parsers.text_reader import Reading
from srt.parsers.tool_calls.call_object import read_arguments, read_call_array
from srt.parsers.tool_calls.format import CallReading, CallStructure, ToolCallFormat

BEGIN = "[TOOL_CALLS]"
CALL_ID = "[CALL_ID]"
ARGUMENTS = "[ARGS]"
_BEGIN_MARKERS = Markers((BEGIN,))


def read(reading: CallReading) -> Reading[None]:
    """Content and calls, in either form."""
    reader, writer = reading.reader, reading.writer
    while (marker := (yield from reader.read_until(_BEGIN_MARKERS, writer.content))) is not None:
        reader.remember(marker)
        yield from reader.skip_whitespace()
        if (yield from reader.accept("[")):
            yield from read_call_array(reading)
        else:
            yield from _read_compact_call(reading)
        reading.give_back()


def _read_compact_call(reading: CallReading) -> Reading[None]:
    reader = reading.reader
    name = yield from reader.read_name()
    if not reading.tools.has(name):
        return
    call_id = None
    if (yield from reader.accept(CALL_ID)):
        call_id = (yield from reader.read_name()) or None
    yield from reader.accept(ARGUMENTS)
    yield from read_arguments(reading, name, call_id)


def array_structure(name: str) -> CallStructure:
    """A call alone in its array."""
    begin = f'{BEGIN} [{{"name": {json.dumps(name)}, "arguments": '
    return CallStructure(begin=begin, end="}]", trigger=BEGIN)


def compact_structure(name: str) -> CallStructure:
    """The newer form."""
    return CallStructure(begin=f"{BEGIN}{name}{ARGUMENTS}", end="", trigger=BEGIN)


FORMAT = ToolCallFormat(name="mistral", read=read, structure=array_structure)
COMPACT_FORMAT = ToolCallFormat(name="mistral-compact", read=read, structure=compact_structure)
