"""An answer that is nothing but calls: `[{"name": …, "parameters": {…}}, …]`.

What a grammar makes a model write when it must call, and its own format cannot be enforced.
"""

from srt.parsers.text_reader import Reading
from srt.parsers.tool_calls.call_object import read_call_array
from srt.parsers.tool_calls.format import CallReading, ToolCallFormat


def read(reading: CallReading) -> Reading[None]:
    """Calls; what does not begin so is content, and so is what follows."""
    reading.reader.remember()
    yield from reading.reader.skip_whitespace()
    if (yield from reading.reader.accept("[")):
        yield from read_call_array(reading)
    reading.give_back()


FORMAT = ToolCallFormat(name="json_array", read=read)
