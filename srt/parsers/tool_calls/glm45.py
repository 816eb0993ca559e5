"""GLM 4.5: `<tool_call>NAME`, then each argument as `<arg_key>` and `<arg_value>`."""

from srt.parsers.markers import Markers
from srt.parsers.text_reader import Reading
from srt.parsers.tool_calls.format import CallReading, ToolCallFormat
from srt.parsers.tool_calls.typed_arguments import TypedArguments

BEGIN = "<tool_call>"
END = "</tool_call>"
KEY = "<arg_key>"
KEY_END = "</arg_key>"
VALUE = "<arg_value>"
VALUE_END = "</arg_value>"
_BEGIN_MARKERS = Markers((BEGIN,))
_KEY_ENDS = Markers((KEY_END,))
_VALUE_ENDS = Markers((VALUE_END,))


def read(reading: CallReading) -> Reading[None]:
    """Content and calls."""
    reader, writer = reading.reader, reading.writer
    while (marker := (yield from reader.read_until(_BEGIN_MARKERS, writer.content))) is not None:
        reader.remember(marker)
        yield from reader.skip_whitespace()
        name = yield from reader.read_name()
        if reading.tools.has(name):
            yield from _read_arguments(reading, name)
        reading.give_back()


def _read_arguments(reading: CallReading, name: str) -> Reading[None]:
    reader = reading.reader
    arguments: TypedArguments | None = None
    yield from reader.skip_whitespace()
    while (yield from reader.accept(KEY)):
        key: list[str] = []
        if (yield from reader.read_until(_KEY_ENDS, key.append)) is None:
            return
        yield from reader.skip_whitespace()
        if not (yield from reader.accept(VALUE)):
            return
        reader.forget()
        if arguments is None:
            arguments = TypedArguments(reading, name, _VALUE_ENDS)
        if (yield from arguments.read_value("".join(key).strip())) is None:
            return
        reader.remember()
        yield from reader.skip_whitespace()
    if (yield from reader.accept(END)):
        (arguments or TypedArguments(reading, name, _VALUE_ENDS)).end()
        reader.forget()


FORMAT = ToolCallFormat(name="glm45", read=read)
