"""Kimi K2: a section of calls, each `functions.NAME:NUMBER` and its arguments in JSON."""

import re

from srt.parsers.text_reader import Reading
from srt.parsers.tool_calls.call_object import read_arguments
from srt.parsers.tool_calls.call_section import CallSection
from srt.parsers.tool_calls.format import CallReading, CallStructure, ToolCallFormat

SECTION_BEGIN = "<|tool_calls_section_begin|>"
SECTION_END = "<|tool_calls_section_end|>"
CALL_BEGIN = "<|tool_call_begin|>"
ARGUMENTS_BEGIN = "<|tool_call_argument_begin|>"
CALL_END = "<|tool_call_end|>"
# The name, as in `functions.get_weather:0`. The whole is the call's id: templates want it back.
_CALL_ID = re.compile(r"(?:functions\.)?(.+?)(?::\d+)?")


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


_SECTION = CallSection(SECTION_BEGIN, CALL_BEGIN, _read_call)
FORMAT = ToolCallFormat(name="kimi_k2", read=_SECTION.read, structure=structure)
