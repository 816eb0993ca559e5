"""`ToolCallFormat`: how one family of models spells its calls; `ToolCallParser`, which reads answers by it.

A format is a generator that reads the answer in the order in which it is written, and, for grammars, the text around a
call's arguments. What no call comes of is content, to the letter: `TextReader` remembers what a call would begin with,
and gives it back.
"""

from collections.abc import Callable
from dataclasses import dataclass

from srt.parsers.answer import AnswerPart
from srt.parsers.known_tools import KnownTools
from srt.parsers.part_writer import PartWriter
from srt.parsers.text_reader import Reading, TextReader

_ENDED = object()


@dataclass(frozen=True, slots=True)
class CallStructure:
    """A call of one function, around the JSON of its arguments: what a structural tag of a grammar says.

    `trigger` is what `begin` begins with: whoever writes it means to call.
    """

    begin: str
    end: str
    trigger: str


@dataclass(frozen=True, kw_only=True)
class ToolCallFormat:
    """One format. `read` may end before the answer does: what is then unread is content.

    `structure` is missing where arguments are not written in JSON.
    """

    name: str
    read: Callable[["CallReading"], Reading[None]]
    structure: Callable[[str], CallStructure] | None = None


@dataclass(frozen=True, slots=True)
class CallReading:
    """One answer while it is read: where its text comes from, what is known, where its parts go."""

    reader: TextReader
    writer: PartWriter
    tools: KnownTools

    def begin_call(self, name: str, call_id: str | None = None) -> None:
        """Now it is a call: what was remembered is no content."""
        self.reader.forget()
        self.writer.begin(name, call_id)

    def give_back(self) -> None:
        """What is still remembered has become no call, so it is content.

        Unless the answer ends in the middle of a call: half a tag between arguments is no text.
        """
        remembered = self.reader.forget()
        if self.reader.has_ended and self.writer.is_in_arguments:
            self.reader.read_rest()
        else:
            self.writer.content(remembered)


class ToolCallParser:
    """An AnswerParser of content and calls."""

    __slots__ = ("_reader", "_reading", "_writer")

    def __init__(self, call_format: ToolCallFormat, tools: KnownTools) -> None:
        self._reader = TextReader()
        self._writer = PartWriter()
        self._reading = call_format.read(CallReading(self._reader, self._writer, tools))

    @property
    def num_calls(self) -> int:
        """Calls begun so far."""
        return self._writer.num_calls

    @property
    def is_inside_call(self) -> bool:
        """Whether a call has begun and did not end as a call should."""
        return self._writer.is_inside_call

    @property
    def num_unread(self) -> int:
        """Characters that wait for more, because they may be the beginning of a marker."""
        return self._reader.num_unread

    def push(self, text: str) -> list[AnswerPart]:
        """What this much more text says."""
        self._reader.feed(text)
        self._go_on()
        return self._writer.take()

    def finish(self) -> list[AnswerPart]:
        """The answer has ended: what was held back."""
        self._reader.end()
        self._go_on()
        self._writer.finish()
        return self._writer.take()

    def _go_on(self) -> None:
        if next(self._reading, _ENDED) is _ENDED:
            self._writer.content(self._reader.read_rest())
