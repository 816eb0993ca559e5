"""Kimi K2: a section of calls, each `functions.NAME:NUMBER` and its arguments in JSON."""

import re

from srt.parsers.markers import Markers
from srt.parsers.text_reader import Reading
from srt.parsers.tool_calls.call_object import read_arguments
from srt.parsers.tool_calls.format import CallReading, CallStructure, ToolCallFormat

SECTION_BEGIN = "<|tool_calls_section_begin|>"
SECTION_END = "<|tool_calls_section_end|>"
CALL_BEGIN = "<|tool_call_begin|>"
ARGUMENTS_BEGIN = "<|tool_call_argument_begin|>"
CALL_END = "<|tool_call_end|>"
_BEGIN_MARKERS = Markers((SECTION_BEGIN, CALL_BEGIN))
# The name, as in `functions.get_weather:0`. The whole is the call's id: templates want it back.
_CALL_ID = re.compile(r"(?:functions\.)?(.+?)(?::\d+)?")


def read(reading: CallReading) -> Reading[None]:
    """Content and calls."""
    reader, writer = reading.reader, reading.writer
    while (marker := (yield from reader.read_until(_BEGIN_MARKERS, writer.content))) is not None:
        reader.remember(marker)
        if marker == SECTION_BEGIN:
            yield from reader.skip_whitespace()
        if marker == CALL_BEGIN or (yield from reader.accept(CALL_BEGIN)):
            yield from _read_call(reading)
        reading.give_back()


def _read_call(reading: CallReading) -> Reading[None]:
    reader = reading.reader
    yield from reader.skip_whitespace()
    call_id = yield from reader.read_name()
    found = _CALL_ID.fullmatch(call_id)
    if found is None or not reading.tools.has(found.group(1)):
        return
    yield from reader.skip_whitespace()
    if not (yield from reader.accept(ARGUMENTS_BEGIN)):
        return
    if not (yield from read_arguments(reading, found.group(1), call_id)):
        return
    yield from reader.skip_whitespace()
    if (yield from reader.accept_end(CALL_END)):
        yield from reader.skip_whitespace()
        yield from reader.accept_end(SECTION_END)


def structure(name: str) -> CallStructure:
    """Each call in a section of its own. All have the number 0: a grammar cannot count."""
    begin = f"{SECTION_BEGIN}{CALL_BEGIN}functions.{name}:0{ARGUMENTS_BEGIN}"
    return CallStructure(begin=begin, end=CALL_END + SECTION_END, trigger=SECTION_BEGIN)


FORMAT = ToolCallFormat(name="kimi_k2", read=read, structure=structure)
