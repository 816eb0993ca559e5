"""Calls in sections: a marker opens the section, another one each call; either may stand without the other."""

from collections.abc import Callable
from dataclasses import dataclass, field

from srt.parsers.markers import Markers
from srt.parsers.text_reader import Reading
from srt.parsers.tool_calls.format import CallReading


@dataclass(frozen=True)
class CallSection:
    """How sections are read: content outside, `read_call` behind each call's opening marker."""

    section_begin: str
    call_begin: str
    read_call: Callable[[CallReading], Reading[None]]
    _begin_markers: Markers = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_begin_markers", Markers((self.section_begin, self.call_begin)))

    def read(self, reading: CallReading) -> Reading[None]:
        """Content and calls."""
        reader, writer = reading.reader, reading.writer
        while (marker := (yield from reader.read_until(self._begin_markers, writer.content))) is not None:
            reader.remember(marker)
            if marker == self.section_begin:
                yield from reader.skip_whitespace()
            if marker == self.call_begin or (yield from reader.accept(self.call_begin)):
                yield from self.read_call(reading)
            reading.give_back()
