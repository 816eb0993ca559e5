"""DeepSeek V3.2: a block of invocations in tags that carry its DSML marker, each argument in a tag of its own.

A parameter's tag says itself whether its text is a string or JSON.
"""

from srt.parsers.known_tools import Types
from srt.parsers.markers import Markers
from srt.parsers.text_reader import Reading
from srt.parsers.tool_calls.format import CallReading, ToolCallFormat
from srt.parsers.tool_calls.typed_arguments import STRING, TypedArguments

BLOCK = "<｜DSML｜function_calls>"
BLOCK_END = "</｜DSML｜function_calls>"
INVOKE = '<｜DSML｜invoke name="'
INVOKE_END = "</｜DSML｜invoke>"
PARAMETER = '<｜DSML｜parameter name="'
PARAMETER_END = "</｜DSML｜parameter>"
AS_STRING = ' string="true"'
AS_JSON = ' string="false"'
_BEGIN_MARKERS = Markers((BLOCK, INVOKE))
_QUOTE = Markers(('"',))
_VALUE_ENDS = Markers((PARAMETER_END,))


def read(reading: CallReading) -> Reading[None]:
    """Content and calls."""
    reader, writer = reading.reader, reading.writer
    while (marker := (yield from reader.read_until(_BEGIN_MARKERS, writer.content))) is not None:
        reader.remember(marker)
        if marker == BLOCK:
            yield from reader.skip_whitespace()
        if marker == INVOKE or (yield from reader.accept(INVOKE)):
            yield from _read_call(reading)
        reading.give_back()


def _read_call(reading: CallReading) -> Reading[None]:
    reader = reading.reader
    name = yield from reader.read_name()
    if not reading.tools.has(name) or not (yield from reader.accept('">')):
        return
    yield from reader.skip_whitespace()
    if (yield from _read_parameters(reading, name)):
        yield from reader.skip_whitespace()
        yield from reader.accept_end(BLOCK_END)


def _read_parameters(reading: CallReading, name: str) -> Reading[bool]:
    """Up to the invocation's end; whether it has one."""
    reader = reading.reader
    arguments: TypedArguments | None = None
    while (yield from reader.accept(PARAMETER)):
        key: list[str] = []
        if (yield from reader.read_until(_QUOTE, key.append)) is None:
            return False
        types: Types = STRING
        if not (yield from reader.accept(AS_STRING)) and (yield from reader.accept(AS_JSON)):
            types = frozenset()
        if not (yield from reader.accept(">")):
            return False
        reader.forget()
        if arguments is None:
            arguments = TypedArguments(reading, name, _VALUE_ENDS)
        if (yield from arguments.read_value("".join(key), types=types)) is None:
            return False
        reader.remember()
        yield from reader.skip_whitespace()
    if not (yield from reader.accept(INVOKE_END)):
        return False
    (arguments or TypedArguments(reading, name, _VALUE_ENDS)).end()
    reader.forget()
    return True


FORMAT = ToolCallFormat(name="deepseekv32", read=read)
