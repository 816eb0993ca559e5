"""Hermes, Qwen 2.5, Qwen 3: `<tool_call>` around a JSON object with name and arguments."""

import json

from srt.parsers.markers import Markers
from srt.parsers.text_reader import Reading
from srt.parsers.tool_calls.call_object import read_call_object
from srt.parsers.tool_calls.format import CallReading, CallStructure, ToolCallFormat

BEGIN = "<tool_call>"
END = "</tool_call>"
_BEGIN_MARKERS = Markers((BEGIN,))


def read(reading: CallReading) -> Reading[None]:
    """Content and calls."""
    reader, writer = reading.reader, reading.writer
    while (marker := (yield from reader.read_until(_BEGIN_MARKERS, writer.content))) is not None:
        reader.remember(marker)
        yield from reader.skip_whitespace()
        if (yield from read_call_object(reading)):
            yield from reader.skip_whitespace()
            yield from reader.accept_end(END)
        reading.give_back()


def structure(name: str) -> CallStructure:
    """With the line breaks that Qwen's templates write."""
    begin = f'{BEGIN}\n{{"name": {json.dumps(name)}, "arguments": '
    return CallStructure(begin=begin, end="}\n" + END, trigger=BEGIN)


FORMAT = ToolCallFormat(name="hermes", read=read, structure=structure)
