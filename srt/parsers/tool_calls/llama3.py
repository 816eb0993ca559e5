"""Llama 3: `{"name": …, "parameters": {…}}`, separated by semicolons, with or without `<|python_tag|>` in front.

Without the tag only an answer that is a call from its first character on is taken for one, and only if the object
has no other members than a call's.
"""

import json

from srt.parsers.markers import Markers
from srt.parsers.text_reader import Reading
from srt.parsers.tool_calls.call_object import read_call_object
from srt.parsers.tool_calls.format import CallReading, CallStructure, ToolCallFormat

TAG = "<|python_tag|>"
_TAG_MARKERS = Markers((TAG,))


def read(reading: CallReading) -> Reading[None]:
    """Content and calls."""
    reader, writer = reading.reader, reading.writer
    reader.remember()
    yield from _read_calls(reading, is_marked=False)
    reading.give_back()
    while (marker := (yield from reader.read_until(_TAG_MARKERS, writer.content))) is not None:
        reader.remember(marker)
        yield from _read_calls(reading, is_marked=True)
        reading.give_back()


def _read_calls(reading: CallReading, *, is_marked: bool) -> Reading[None]:
    reader = reading.reader
    yield from reader.skip_whitespace()
    while (yield from read_call_object(reading, has_marker=is_marked)):
        yield from reader.skip_whitespace()
        yield from reader.accept(";")
        reader.remember()
        yield from reader.skip_whitespace()


def structure(name: str) -> CallStructure:
    """Always with the tag: a grammar needs something to start at."""
    begin = f'{TAG}{{"name": {json.dumps(name)}, "parameters": '
    return CallStructure(begin=begin, end="}", trigger=TAG)


FORMAT = ToolCallFormat(name="llama3", read=read, structure=structure)
