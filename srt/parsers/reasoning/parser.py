"""`ReasoningParser`: what a model thinks aloud, apart from what it then says.

Reasoning is what stands between the markers at the beginning of an answer; without an end marker it is all of it.
Markers show nowhere, nor do the line breaks next to them, which templates write themselves. Nothing else is lost.
"""

from srt.parsers.answer import AnswerParser, AnswerPart, Content, Reasoning
from srt.parsers.reasoning.format import ReasoningFormat
from srt.parsers.text_reader import Reading, TextReader

LINE_BREAK = "\n"
_ENDED = object()


class ReasoningParser:
    """An AnswerParser that leaves what follows the reasoning to `rest`, or takes it for content.

    With `is_shown` the reasoning is content, too, to the letter and with its markers; calls in it are none still.
    """

    __slots__ = (
        "_format",
        "_has_ended",
        "_held_breaks",
        "_is_shown",
        "_pieces",
        "_reader",
        "_reading",
        "_rest",
    )

    def __init__(
        self,
        reasoning_format: ReasoningFormat,
        *,
        starts_inside: bool,
        rest: AnswerParser | None = None,
        is_shown: bool = False,
    ) -> None:
        self._format = reasoning_format
        self._rest = rest
        self._is_shown = is_shown
        self._reader = TextReader()
        self._pieces: list[str] = []  # of reasoning
        self._held_breaks: list[str] | None = None  # at the end of it so far; None before its first character
        self._has_ended = False  # all that follows is for `rest`
        self._reading = self._read(starts_inside)

    @property
    def num_calls(self) -> int:
        """Calls begun so far."""
        return 0 if self._rest is None else self._rest.num_calls

    @property
    def is_inside_call(self) -> bool:
        """Whether a call has begun and did not end as a call should."""
        return self._rest is not None and self._rest.is_inside_call

    def push(self, text: str) -> list[AnswerPart]:
        """What this much more text says."""
        if self._has_ended:
            return self._pass_on(text)
        self._reader.feed(text)
        return self._go_on()

    def finish(self) -> list[AnswerPart]:
        """The answer has ended: what was held back."""
        self._reader.end()
        parts = [] if self._has_ended else self._go_on()
        return parts if self._rest is None else [*parts, *self._rest.finish()]

    def _go_on(self) -> list[AnswerPart]:
        self._has_ended = next(self._reading, _ENDED) is _ENDED
        parts: list[AnswerPart] = []
        if text := "".join(self._pieces):
            self._pieces.clear()
            parts.append(Content(text) if self._is_shown else Reasoning(text))
        if self._has_ended:
            parts += self._pass_on(self._reader.read_rest())
        return parts

    def _pass_on(self, text: str) -> list[AnswerPart]:
        if not text:
            return []
        return [Content(text)] if self._rest is None else self._rest.push(text)

    def _read(self, starts_inside: bool) -> Reading[None]:
        """Ends where the reasoning does; what is then unread follows it."""
        reader = self._reader
        blanks = yield from reader.skip_whitespace()
        has_marker = yield from reader.accept(self._format.begin)
        if not has_marker:
            reader.put_back(blanks)
            if not starts_inside:
                return
        if self._is_shown:
            self._pieces.append(blanks + self._format.begin if has_marker else "")
            end = yield from reader.read_until(self._format.end_markers, self._pieces.append)
            self._pieces.append(end or "")
            return
        if (yield from reader.read_until(self._format.end_markers, self._add)) is None:
            self._pieces += self._held_breaks or ()
        else:
            yield from reader.skip_line_breaks()

    def _add(self, text: str) -> None:
        """More reasoning: line breaks at its beginning are dropped, those at its end wait for what follows."""
        if self._held_breaks is None:
            text = text.lstrip(LINE_BREAK)
            if not text:
                return
            self._held_breaks = []
        kept = text.rstrip(LINE_BREAK)
        if kept:
            self._pieces += (*self._held_breaks, kept)
            self._held_breaks.clear()
        if len(kept) < len(text):
            self._held_breaks.append(text[len(kept) :])
