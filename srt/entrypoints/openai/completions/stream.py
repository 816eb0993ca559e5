"""GenerateChunks to completion events, echo included. A token costs a lookup, a JSON string and a join."""

from collections.abc import Sequence

import msgspec
import orjson

from srt.engine_client import FinishReason, GenerateChunk
from srt.entrypoints.openai.completions.protocol import CompletionChoice, CompletionResponse
from srt.entrypoints.openai.usage import Usage, count_usage
from srt.entrypoints.sse import DONE, TextEvent, event


class CompletionEventWriter:
    """One stream's events.

    A choice begins with its prompt, if `echoes` holds one for each; then comes text, never empty, and last an event
    of its own with finish_reason, which is null until then.
    """

    def __init__(
        self,
        *,
        response_id: str,
        created: int,
        model: str,
        n: int,
        echoes: Sequence[str],
        includes_usage: bool,
        has_continuous_usage: bool,
    ) -> None:
        self._id = response_id
        self._created = created
        self._model = model
        self._n = n
        self._echoes = echoes
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
                if self._echoes:
                    parts.append(self._event(index, self._echoes[index // self._n]))
            if chunk.text:
                if self._has_continuous_usage:
                    parts.append(self._event(index, chunk.text))
                else:
                    parts += (text_event.before, orjson.dumps(chunk.text), text_event.after)
            if chunk.finish is not None:
                parts.append(self._event(index, "", chunk.finish))
        return b"".join(parts)

    def last_events(self) -> bytes:
        """See srt/entrypoints/sse.py."""
        if not self._includes_usage:
            return DONE
        return event(msgspec.json.encode(self._response([], self._count_usage()))) + DONE

    def _begin_choice(self, index: int) -> TextEvent:
        text_event = TextEvent(self._event(index, ""), b'"text"')
        self._text_events[index] = text_event
        return text_event

    def _event(self, index: int, text: str, finish: FinishReason | None = None) -> bytes:
        choice = CompletionChoice(
            index=index,
            text=text,
            finish_reason=None if finish is None else finish.type,
            matched_stop=msgspec.UNSET if finish is None else finish.matched,
        )
        usage = self._count_usage() if self._has_continuous_usage else None
        return event(msgspec.json.encode(self._response([choice], usage)))

    def _response(self, choices: list[CompletionChoice], usage: Usage | None) -> CompletionResponse:
        return CompletionResponse(
            id=self._id,
            created=self._created,
            model=self._model,
            choices=choices,
            usage=usage if self._includes_usage else msgspec.UNSET,
        )

    def _count_usage(self) -> Usage:
        return count_usage(self._last_chunks.values(), n=self._n)
