"""GenerateChunks to chat deltas: role, content, finish, usage.

A token costs a lookup, a JSON string and a join; everything around it was rendered once a choice.
Next on the request's path: srt/entrypoints/sse.py
"""

import msgspec
import orjson

from srt.engine_client import FinishReason, GenerateChunk
from srt.entrypoints.openai.chat.protocol import ChatChunk, ChunkChoice, Delta
from srt.entrypoints.openai.usage import Usage, count_usage
from srt.entrypoints.sse import DONE, TextEvent, event


class ChatEventWriter:
    """One stream's events.

    A choice begins with its role and empty content, then come deltas of content, never empty ones, and last a chunk
    of its own with finish_reason, which is null until then.
    """

    def __init__(
        self,
        *,
        response_id: str,
        created: int,
        model: str,
        n: int,
        includes_usage: bool,
        has_continuous_usage: bool,
    ) -> None:
        self._id = response_id
        self._created = created
        self._model = model
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
                text_event = self._begin_choice(index)
                parts.append(self._event(index, Delta(role="assistant", content="")))
            if chunk.text:
                if self._has_continuous_usage:
                    parts.append(self._event(index, Delta(content=chunk.text)))
                else:
                    parts += (text_event.before, orjson.dumps(chunk.text), text_event.after)
            if chunk.finish is not None:
                parts.append(self._event(index, Delta(), chunk.finish))
        return b"".join(parts)

    def last_events(self) -> bytes:
        """See srt/entrypoints/sse.py."""
        if not self._includes_usage:
            return DONE
        return event(msgspec.json.encode(self._chunk([], self._count_usage()))) + DONE

    def _begin_choice(self, index: int) -> TextEvent:
        text_event = TextEvent(self._event(index, Delta(content="")), b'"content"')
        self._text_events[index] = text_event
        return text_event

    def _event(self, index: int, delta: Delta, finish: FinishReason | None = None) -> bytes:
        choice = ChunkChoice(
            index=index,
            delta=delta,
            finish_reason=None if finish is None else finish.type,
            matched_stop=msgspec.UNSET if finish is None else finish.matched,
        )
        usage = self._count_usage() if self._has_continuous_usage else None
        return event(msgspec.json.encode(self._chunk([choice], usage)))

    def _chunk(self, choices: list[ChunkChoice], usage: Usage | None) -> ChatChunk:
        return ChatChunk(
            id=self._id,
            created=self._created,
            model=self._model,
            choices=choices,
            usage=usage if self._includes_usage else msgspec.UNSET,
        )

    def _count_usage(self) -> Usage:
        return count_usage(self._last_chunks.values(), n=self._n)
