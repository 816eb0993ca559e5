"""`TextReader`: read text that arrives in pieces as if it were all there.

What reads is a generator that stops where it needs more text (`yield`), so a format is written down in the order in
which a model writes it. At such a stop only what may be the beginning of a marker is unread: that, not the answer's
length, bounds what a piece costs.
"""

import json
import re
from collections.abc import Callable, Generator
from typing import TypeVar

from srt.parsers.json_scanner import WHITESPACE, JsonScanner, Scanner, escape_controls
from srt.parsers.markers import Markers

T = TypeVar("T")
# Stops where more text is needed; goes on when `TextReader.feed` or `end` was called.
Reading = Generator[None, None, T]

# A name has none of these in any format.
_NAME = re.compile("[^" + re.escape(WHITESPACE + "<>[](){}\"'`,;=|") + "]*")
_LINE_BREAKS = re.compile(r"\n*")
_WHITESPACE = re.compile(f"[{WHITESPACE}]*")


class TextReader:
    """Give it text with `feed`, then let the generator that reads from it go on."""

    __slots__ = ("_position", "_remembered", "_text", "has_ended")

    def __init__(self) -> None:
        self._text = ""
        self._position = 0
        self.has_ended = False  # no more will come
        self._remembered: list[str] | None = None

    def feed(self, text: str) -> None:
        """More text has come."""
        self._text = self._text[self._position :] + text
        self._position = 0

    def end(self) -> None:
        """No more will come."""
        self.has_ended = True

    @property
    def num_unread(self) -> int:
        """Characters that were fed and not read."""
        return len(self._text) - self._position

    def remember(self, text: str = "") -> None:
        """Keep what is read from here on, behind `text`, until `forget`."""
        self._remembered = [text]

    def forget(self) -> str:
        """What was kept; nothing if nothing is being kept."""
        kept, self._remembered = self._remembered, None
        return "" if kept is None else "".join(kept)

    # Below: to be read with `yield from`.

    def peek(self) -> Reading[str]:
        """The next character, which stays unread; "" at the end."""
        while self._position == len(self._text):
            if self.has_ended:
                return ""
            yield
        return self._text[self._position]

    def skip_whitespace(self) -> Reading[str]:
        """Read blanks and line breaks, if any; return them."""
        return (yield from self._read_all(_WHITESPACE))

    def skip_line_breaks(self) -> Reading[str]:
        """Read line breaks, if any; return them."""
        return (yield from self._read_all(_LINE_BREAKS))

    def accept(self, marker: str) -> Reading[bool]:
        """Read `marker` if it comes next; otherwise nothing is read."""
        while True:
            rest = self._text[self._position : self._position + len(marker)]
            if rest == marker:
                self._take(len(rest))
                return True
            if self.has_ended or not marker.startswith(rest):
                return False
            yield

    def accept_end(self, marker: str) -> Reading[bool]:
        """The same for a marker that ends something whole: one that the end of the text cuts short counts, too."""
        if (yield from self.accept(marker)):
            return True
        if not self.has_ended or not marker.startswith(self._text[self._position :]):
            return False
        self.read_rest()
        return True

    def put_back(self, text: str) -> None:
        """Make what was read last the next text again."""
        self._text = text + self._text[self._position :]
        self._position = 0

    def read_rest(self) -> str:
        """All that was fed and not read, without waiting for more."""
        return self._take(self.num_unread)

    def read_until(self, markers: Markers, emit: Callable[[str], None]) -> Reading[str | None]:
        """Give `emit` all text before the next marker, as it comes; read and return that marker, None at the end."""
        while True:
            found = markers.find(self._text, self._position)
            if found is not None:
                if found.start() > self._position:
                    emit(self._take(found.start() - self._position))
                return self._take(len(found.group()))
            held = markers.beginning(self._text, self._position)
            if self.has_ended:
                held = len(self._text)
            if held > self._position:
                emit(self._take(held - self._position))
            if self.has_ended:
                return None
            yield

    def read_name(self) -> Reading[str]:
        """A function's name, up to a character that none has; "" if none comes next."""
        return (yield from self._read_all(_NAME))

    def read_json(self, emit: Callable[[str], None]) -> Reading[bool]:
        """Give `emit` a JSON value as it comes, spelled as it is; whether it is whole.

        The one thing that is mended is a raw line break or other control character in a string: it is escaped.
        """
        return (yield from self.read_value(JsonScanner(), emit))

    def read_value(self, scanner: Scanner, emit: Callable[[str], None]) -> Reading[bool]:
        """The same for a value of any notation."""
        while True:
            start = self._position
            end = scanner.scan(self._text, start)
            if end > start:
                controls = [position - start for position in scanner.raw_controls]
                emit(escape_controls(self._take(end - start), controls))
            if scanner.is_whole or scanner.is_broken or self.has_ended:
                return scanner.may_end and not scanner.is_broken
            yield

    def read_string(self) -> Reading[str | None]:
        """A JSON string's text; None if something else comes next, or it does not end."""
        if (yield from self.peek()) != '"':
            return None
        pieces: list[str] = []
        if not (yield from self.read_json(pieces.append)):
            return None
        text: str = json.loads("".join(pieces))
        return text

    def _read_all(self, pattern: re.Pattern[str]) -> Reading[str]:
        pieces = []
        while True:
            pieces.append(self._take_all(pattern))
            if self._position < len(self._text) or self.has_ended:
                return "".join(pieces)
            yield

    def _take_all(self, pattern: re.Pattern[str]) -> str:
        found = pattern.match(self._text, self._position)
        assert found is not None, "these patterns match the empty text, too"
        return self._take(found.end() - self._position)

    def _take(self, num_chars: int) -> str:
        """All reading ends up here."""
        text = self._text[self._position : self._position + num_chars]
        self._position += num_chars
        if self._remembered is not None:
            self._remembered.append(text)
        return text
