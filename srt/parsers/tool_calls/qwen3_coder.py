"""Qwen3-Coder: `<tool_call>`, `<function=NAME>`, and each argument as text between `<parameter=KEY>` and its end."""

from srt.parsers.markers import Markers
from srt.parsers.text_reader import Reading
from srt.parsers.tool_calls.format import CallReading, ToolCallFormat
from srt.parsers.tool_calls.typed_arguments import STRING, TypedArguments

BEGIN = "<tool_call>"
END = "</tool_call>"
FUNCTION = "<function="
FUNCTION_END = "</function>"
PARAMETER = "<parameter="
PARAMETER_END = "</parameter>"
# Models forget the outer marker now and then.
_BEGIN_MARKERS = Markers((BEGIN, FUNCTION))
_TAG_ENDS = Markers((">",))
# The line breaks around a value are the template's. A forgotten end is found where the function ends.
_VALUE_ENDS = Markers(("\n" + PARAMETER_END, PARAMETER_END, "\n" + FUNCTION_END, FUNCTION_END))


def read(reading: CallReading) -> Reading[None]:
    """Content and calls."""
    reader, writer = reading.reader, reading.writer
    while (marker := (yield from reader.read_until(_BEGIN_MARKERS, writer.content))) is not None:
        reader.remember(marker)
        if marker == BEGIN:
            yield from reader.skip_whitespace()
        if marker == FUNCTION or (yield from reader.accept(FUNCTION)):
            yield from _read_call(reading)
        reading.give_back()


def _read_call(reading: CallReading) -> Reading[None]:
    reader = reading.reader
    name = yield from reader.read_name()
    if not reading.tools.has(name) or not (yield from reader.accept(">")):
        return
    yield from reader.skip_whitespace()
    if (yield from _read_function(reading, name)):
        yield from reader.skip_whitespace()
        yield from reader.accept_end(END)


def _read_function(reading: CallReading, name: str) -> Reading[bool]:
    """From the first parameter to the function's end; whether it has one."""
    reader = reading.reader
    arguments: TypedArguments | None = None
    while (yield from reader.accept(PARAMETER)):
        key: list[str] = []
        if (yield from reader.read_until(_TAG_ENDS, key.append)) is None:
            return False
        reader.forget()
        if arguments is None:
            arguments = TypedArguments(reading, name, _VALUE_ENDS)
        yield from reader.accept("\n")
        end = yield from arguments.read_value("".join(key), default=STRING)
        if end is None:
            return False
        reader.remember()
        if end.endswith(FUNCTION_END):
            arguments.end()
            return True
        yield from reader.skip_whitespace()
    if not (yield from reader.accept(FUNCTION_END)):
        return False
    (arguments or TypedArguments(reading, name, _VALUE_ENDS)).end()
    reader.forget()
    return True


FORMAT = ToolCallFormat(name="qwen3_coder", read=read)
