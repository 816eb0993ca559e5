"""DeepSeek V3 and R1: a section of calls, each with its name on a line and its arguments in a fence of JSON.

V3.1 leaves out the fence and the word `function`. Both are read by either name; grammars must know which.
"""

from srt.parsers.text_reader import Reading
from srt.parsers.tool_calls.call_object import read_arguments
from srt.parsers.tool_calls.call_section import CallSection
from srt.parsers.tool_calls.format import CallReading, CallStructure, ToolCallFormat

CALLS_BEGIN = "<｜tool▁calls▁begin｜>"
CALLS_END = "<｜tool▁calls▁end｜>"
CALL_BEGIN = "<｜tool▁call▁begin｜>"
CALL_END = "<｜tool▁call▁end｜>"
SEPARATOR = "<｜tool▁sep｜>"
FENCE_BEGIN = "```json"
FENCE_END = "```"


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


_SECTION = CallSection(CALLS_BEGIN, CALL_BEGIN, _read_call)
FORMAT = ToolCallFormat(name="deepseekv3", read=_SECTION.read, structure=fenced_structure)
V31_FORMAT = ToolCallFormat(name="deepseekv31", read=_SECTION.read, structure=plain_structure)
