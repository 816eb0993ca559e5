"""GenerateChunks to the events of one OpenAI stream; what an event looks like is its endpoint's business.

A token costs a lookup, a JSON string and a join; everything around it was rendered once a choice.
Next on the request's path: srt/entrypoints/sse.py
"""

from typing import Protocol

import msgspec
import orjson

from srt.engine_client import FinishReason, GenerateChunk
from srt.entrypoints.openai.usage import Usage, count_usage
from srt.entrypoints.sse import DONE, TextEvent, event

# What an event says of usage: nothing at all, null, or the counts so far.
EventUsage = Usage | None | msgspec.UnsetType


class StreamFormat(Protocol):
    """One endpoint's events, as JSON."""

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

    def usage(self, usage: Usage) -> bytes:
        """The last event of a stream that reports usage; it has no choices."""
        ...


class OpenAIEventWriter:
    """One stream's events: for each choice its opening, then text, never empty, then its finish."""

    def __init__(
        self, stream_format: StreamFormat, *, n: int, includes_usage: bool, has_continuous_usage: bool
    ) -> None:
        self._format = stream_format
        self._n = n
        self._includes_usage = includes_usage
        self._has_continuous_usage = has_continuous_usage
        self._text_events: dict[int, TextEvent] = {}
        self._last_chunks: dict[int, GenerateChunk] = {}

    def events(self, chunks: list[GenerateChunk]) -> bytes:
        """See srt/entrypoints/sse.py."""
        parts: list[bytes] = []
        for chunk in chunks:
            index = chunk.index
            self._last_chunks[index] = chunk
            text_event = self._text_events.get(index)
            if text_event is None:
                text_event = self._begin_choice(index, parts)
            if chunk.text:
                if self._has_continuous_usage:
                    parts.append(event(self._format.text(index, chunk.text, self._usage())))
                else:
                    parts += (text_event.before, orjson.dumps(chunk.text), text_event.after)
            if chunk.finish is not None:
                parts.append(event(self._format.finish(index, chunk.finish, self._usage())))
        return b"".join(parts)

    def last_events(self) -> bytes:
        """See srt/entrypoints/sse.py."""
        if not self._includes_usage:
            return DONE
        return event(self._format.usage(self._count_usage())) + DONE

    def _begin_choice(self, index: int, parts: list[bytes]) -> TextEvent:
        rendered = event(self._format.text(index, "", self._usage()))
        text_event = self._text_events[index] = TextEvent(rendered, self._format.text_key)
        opening = self._format.opening(index, self._usage())
        if opening is not None:
            parts.append(event(opening))
        return text_event

    def _usage(self) -> EventUsage:
        if self._has_continuous_usage:
            return self._count_usage()
        return None if self._includes_usage else msgspec.UNSET

    def _count_usage(self) -> Usage:
        return count_usage(self._last_chunks.values(), n=self._n)
