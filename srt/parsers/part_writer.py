"""`PartWriter`: what a reader of calls has found, as parts of the answer.

Blanks and line breaks between a call and the text around it are no content, so the end of content waits until it is
known what follows. Text without calls comes out as it went in.
"""

from srt.parsers.answer import AnswerPart, CallArguments, CallBegin, Content
from srt.parsers.json_scanner import WHITESPACE


class PartWriter:
    """Collects until `take`. Pieces of the same thing become one part."""

    __slots__ = (
        "_held_space",
        "_is_after_call",
        "_num_whole",
        "_parts",
        "_pieces",
        "is_in_arguments",
        "num_calls",
    )

    def __init__(self) -> None:
        self.num_calls = 0  # begun so far
        self._num_whole = 0
        self.is_in_arguments = False  # a call has begun, and what comes are its arguments
        self._is_after_call = False  # and nothing but blanks since
        self._held_space: list[str] = []
        self._pieces: list[str] = []  # of the part being written
        self._parts: list[AnswerPart] = []

    @property
    def is_inside_call(self) -> bool:
        """A call has begun and did not end, or not as a call should."""
        return self._num_whole < self.num_calls

    def content(self, text: str) -> None:
        """More of the answer itself; may be nothing. A call that has not ended stays so."""
        if not text:
            return
        if self.is_in_arguments:
            self._flush()
            self.is_in_arguments = False
        if self._is_after_call:
            text = text.lstrip(WHITESPACE)
            self._is_after_call = not text
        kept = text.rstrip(WHITESPACE)
        if kept:
            self._pieces += (*self._held_space, kept)
            self._held_space.clear()
        if len(kept) < len(text):
            self._held_space.append(text[len(kept) :])

    def begin(self, name: str, call_id: str | None = None) -> None:
        """A call begins, and with it its arguments."""
        self._held_space.clear()
        self._flush()
        self._parts.append(CallBegin(self.num_calls, name, call_id))
        self.num_calls += 1
        self.is_in_arguments = True
        self._is_after_call = False

    def arguments(self, text: str) -> None:
        """More of the JSON of the arguments of the call that has begun; may be nothing."""
        if text:
            self._pieces.append(text)

    def end(self) -> None:
        """The call is whole."""
        self._flush()
        self._num_whole += 1
        self.is_in_arguments = False
        self._is_after_call = True

    def finish(self) -> None:
        """The answer has ended: blanks at its end are content after all."""
        self._pieces += self._held_space
        self._held_space.clear()

    def take(self) -> list[AnswerPart]:
        """What has come since the last time."""
        self._flush()
        parts, self._parts = self._parts, []
        return parts

    def _flush(self) -> None:
        if not self._pieces:
            return
        text = "".join(self._pieces)
        self._pieces.clear()
        self._parts.append(CallArguments(self.num_calls - 1, text) if self.is_in_arguments else Content(text))
