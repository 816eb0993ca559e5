"""What the events of a chat stream look like: role first, then content, then why it ended.

Next on the request's path: srt/entrypoints/openai/event_writer.py
"""

from dataclasses import dataclass

import msgspec

from srt.engine_client import FinishReason
from srt.entrypoints.openai.chat.protocol import ChatChunk, ChunkChoice, Delta
from srt.entrypoints.openai.event_writer import EventUsage
from srt.entrypoints.openai.usage import Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatStreamFormat:
    """StreamFormat of chat completions. finish_reason is null until a choice's last event."""

    response_id: str
    created: int
    model: str
    text_key: bytes = b'"content"'

    def opening(self, index: int, usage: EventUsage) -> bytes:
        """The role, with empty content."""
        return self._chunk(usage, ChunkChoice(index=index, delta=Delta(role="assistant", content="")))

    def text(self, index: int, text: str, usage: EventUsage) -> bytes:
        """A delta of content."""
        return self._chunk(usage, ChunkChoice(index=index, delta=Delta(content=text)))

    def finish(self, index: int, reason: FinishReason, usage: EventUsage) -> bytes:
        """An empty delta, and why."""
        choice = ChunkChoice(
            index=index, delta=Delta(), finish_reason=reason.type, matched_stop=reason.matched
        )
        return self._chunk(usage, choice)

    def usage(self, usage: Usage) -> bytes:
        """No choices, only usage."""
        return self._chunk(usage)

    def _chunk(self, usage: EventUsage, *choices: ChunkChoice) -> bytes:
        chunk = ChatChunk(
            id=self.response_id,
            created=self.created,
            model=self.model,
            choices=list(choices),
            usage=usage,
        )
        return msgspec.json.encode(chunk)
