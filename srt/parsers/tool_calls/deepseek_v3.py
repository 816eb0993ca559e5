"""DeepSeek V3 and R1: a section of calls, each with its name on a line and its arguments in a fence of JSON.

V3.1 leaves out the fence and the word `function`. Both are read by either name; grammars must know which.
"""

from srt.parsers.markers import Markers
from srt.parsers.text_reader import Reading
from srt.parsers.tool_calls.call_object import read_arguments
from srt.parsers.tool_calls.format import CallReading, CallStructure, ToolCallFormat

CALLS_BEGIN = "<｜tool▁calls▁begin｜>"
CALLS_END = "<｜tool▁calls▁end｜>"
CALL_BEGIN = "<｜tool▁call▁begin｜>"
CALL_END = "<｜tool▁call▁end｜>"
SEPARATOR = "<｜tool▁sep｜>"
FENCE_BEGIN = "```json"
FENCE_END = "```"
_BEGIN_MARKERS = Markers((CALLS_BEGIN, CALL_BEGIN))


def read(reading: CallReading) -> Reading[None]:
    """Content and calls."""
    reader, writer = reading.reader, reading.writer
    while (marker := (yield from reader.read_until(_BEGIN_MARKERS, writer.content))) is not None:
        reader.remember(marker)
        if marker == CALLS_BEGIN:
            yield from reader.skip_whitespace()
        if marker == CALL_BEGIN or (yield from reader.accept(CALL_BEGIN)):
            yield from _read_call(reading)
        reading.give_back()


def _read_call(reading: CallReading) -> Reading[None]:
    reader = reading.reader
    name = yield from reader.read_name()
    if not (yield from reader.accept(SEPARATOR)):
        return
    has_type = name == "function"
    if has_type and (next_name := (yield from reader.read_name())):
        name = next_name
    if not reading.tools.has(name):
        return
    yield from reader.skip_whitespace()
    is_fenced = yield from reader.accept(FENCE_BEGIN)
    if not (yield from read_arguments(reading, name)):
        return
    yield from reader.skip_whitespace()
    if is_fenced and (yield from reader.accept_end(FENCE_END)):
        yield from reader.skip_whitespace()
    if (yield from reader.accept_end(CALL_END)):
        yield from reader.skip_whitespace()
        yield from reader.accept_end(CALLS_END)


def fenced_structure(name: str) -> CallStructure:
    """Each call in a section of its own."""
    begin = f"{CALLS_BEGIN}{CALL_BEGIN}function{SEPARATOR}{name}\n{FENCE_BEGIN}\n"
    end = f"\n{FENCE_END}{CALL_END}{CALLS_END}"
    return CallStructure(begin=begin, end=end, trigger=CALLS_BEGIN)


def plain_structure(name: str) -> CallStructure:
    """The same without fences."""
    begin = f"{CALLS_BEGIN}{CALL_BEGIN}{name}{SEPARATOR}"
    return CallStructure(begin=begin, end=CALL_END + CALLS_END, trigger=CALLS_BEGIN)


FORMAT = ToolCallFormat(name="deepseekv3", read=read, structure=fenced_structure)
V31_FORMAT = ToolCallFormat(name="deepseekv31", read=read, structure=plain_structure)
