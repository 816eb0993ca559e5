"""GenerateChunks to the events of one OpenAI stream; what an event looks like is its endpoint's business.

Most streams are nothing but text: there a token costs a lookup, a JSON string and a join, and everything around it was
rendered once a choice (`TextEventWriter`). Where a chunk may say more, log-probabilities, calls or reasoning, its
endpoint looks at each (`DetailedEventWriter`). Which of the two it is, is decided once a request.
Next on the request's path: srt/entrypoints/sse.py
"""

from typing import Protocol

import orjson

from srt.engine_client import FinishReason, GenerateChunk
from srt.entrypoints.openai.usage import EventUsage, StreamUsage, Usage
from srt.entrypoints.sse import DONE, TextEvent, event


class UsageFormat(Protocol):
    """One endpoint's last event, as JSON."""

    def usage(self, usage: Usage) -> bytes:
        """The last event of a stream that reports usage; it has no choices."""
        ...


class TextFormat(UsageFormat, Protocol):
    """One endpoint's events of nothing but text, as JSON."""

    @property
    def text_key(self) -> bytes:
        """The member that holds an event's text, quoted: b'"content"'."""
        ...

    def opening(self, index: int, usage: EventUsage) -> bytes | None:
        """What a choice begins with, if anything."""
        ...

    def text(self, index: int, text: str, usage: EventUsage) -> bytes:
        """More text of a choice."""
        ...

    def finish(self, index: int, reason: FinishReason, usage: EventUsage) -> bytes:
        """A choice's last event, which has no text."""
        ...


class DetailedFormat(UsageFormat, Protocol):
    """One endpoint's events that hold more than text."""

    def events(self, chunk: GenerateChunk, usage: EventUsage) -> list[bytes]:
        """What a chunk says, as events or parts of them: the opening comes with a choice's first, its end last."""
        ...


class TextEventWriter:
    """A stream of text: for each choice its opening, then text, never empty, then its finish."""

    def __init__(self, text_format: TextFormat, usage: StreamUsage) -> None:
        self._format = text_format
        self._usage = usage
        # Choices of which nothing but text is to be told until they end.
        self._text_events: dict[int, TextEvent] = {}
        self._begun: set[int] = set()

    def events(self, chunks: list[GenerateChunk]) -> bytes:
        """See srt/entrypoints/sse.py."""
        parts: list[bytes] = []
        for chunk in chunks:
            text_event = self._text_events.get(chunk.index)
            if text_event is None or chunk.finish is not None:
                self._write(chunk, parts)
            elif chunk.text:
                parts += (text_event.before, orjson.dumps(chunk.text), text_event.after)
        return b"".join(parts)

    def last_events(self) -> bytes:
        """See srt/entrypoints/sse.py."""
        return _last_events(self._format, self._usage)

    def _write(self, chunk: GenerateChunk, parts: list[bytes]) -> None:
        """A choice's first or last chunk, or one whose event counts tokens."""
        self._usage.note(chunk)
        index, usage = chunk.index, self._usage.in_event()
        if index not in self._begun:
            self._begun.add(index)
            if not self._usage.is_continuous:
                rendered = event(self._format.text(index, "", usage))
                self._text_events[index] = TextEvent(rendered, self._format.text_key)
            opening = self._format.opening(index, usage)
            if opening is not None:
                parts.append(event(opening))
        if chunk.text:
            parts.append(event(self._format.text(index, chunk.text, usage)))
        if chunk.finish is not None:
            parts.append(event(self._format.finish(index, chunk.finish, usage)))


class DetailedEventWriter:
    """A stream whose endpoint looks at every chunk."""

    def __init__(self, detailed_format: DetailedFormat, usage: StreamUsage) -> None:
        self._format = detailed_format
        self._usage = usage

    def events(self, chunks: list[GenerateChunk]) -> bytes:
        """See srt/entrypoints/sse.py."""
        parts: list[bytes] = []
        for chunk in chunks:
            self._usage.note(chunk)
            parts += self._format.events(chunk, self._usage.in_event())
        return b"".join(parts)

    def last_events(self) -> bytes:
        """See srt/entrypoints/sse.py."""
        return _last_events(self._format, self._usage)


def _last_events(usage_format: UsageFormat, usage: StreamUsage) -> bytes:
    if not usage.is_included:
        return DONE
    return event(usage_format.usage(usage.total())) + DONE
