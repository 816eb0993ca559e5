"""What the events of a chat stream look like: role first, then what the answer says, then why it ended.

Next on the request's path: srt/entrypoints/openai/event_writer.py
"""

from dataclasses import dataclass, field

import msgspec

from srt.engine_client import FinishReason, GenerateChunk
from srt.entrypoints.openai.chat.answer import AnswerReader
from srt.entrypoints.openai.chat.call_ids import CallIds
from srt.entrypoints.openai.chat.protocol import CallDelta, ChatChunk, ChunkChoice, Delta, FunctionDelta
from srt.entrypoints.openai.chat.running import RunningChat
from srt.entrypoints.openai.logprobs import ChatLogprobs, to_chat_logprobs
from srt.entrypoints.openai.released_tokens import ReleasedTokens, TokenBytes, TokenRelease
from srt.entrypoints.openai.usage import EventUsage, Usage
from srt.parsers.answer import AnswerPart, CallArguments, CallBegin, Content, Reasoning


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatStreamFormat:
    """TextFormat of chat completions. finish_reason is null until a choice's last event."""

    response_id: str
    created: int
    model: str
    text_key: bytes = b'"content"'

    def opening(self, index: int, usage: EventUsage) -> bytes:
        """The role, with empty content."""
        return self.delta(index, Delta(role="assistant", content=""), usage)

    def text(self, index: int, text: str, usage: EventUsage) -> bytes:
        """A delta of content."""
        return self.delta(index, Delta(content=text), usage)

    def delta(
        self, index: int, delta: Delta, usage: EventUsage, logprobs: ChatLogprobs | None = None
    ) -> bytes:
        """More of a choice."""
        return self._chunk(usage, ChunkChoice(index=index, delta=delta, logprobs=logprobs))

    def finish(
        self,
        index: int,
        reason: FinishReason,
        usage: EventUsage,
        *,
        finish_type: str | None = None,
        logprobs: ChatLogprobs | None = None,
    ) -> bytes:
        """An empty delta, and why: `finish_type`, if the answer's end means more than its text's."""
        choice = ChunkChoice(
            index=index,
            delta=Delta(),
            logprobs=logprobs,
            finish_reason=finish_type or reason.type,
            matched_stop=reason.matched,
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


@dataclass(slots=True)
class _ChoiceStream:
    """One choice while it is streamed. Log-probabilities wait for an event that they can go with."""

    reader: AnswerReader
    tokens: TokenRelease | None
    call_ids: CallIds = field(default_factory=CallIds)
    waiting: ReleasedTokens = field(default_factory=ReleasedTokens)

    def take_logprobs(self, token_bytes: TokenBytes) -> ChatLogprobs | None:
        if self.tokens is None or not self.waiting.token_ids:
            return None
        released, self.waiting = self.waiting, ReleasedTokens()
        return to_chat_logprobs(released, token_bytes)


class ChatAnswerFormat:
    """DetailedFormat of chat completions: reasoning, content and calls apart, log-probabilities beside."""

    def __init__(self, stream_format: ChatStreamFormat, chat: RunningChat) -> None:
        self._format = stream_format
        self._chat = chat
        self._choices: dict[int, _ChoiceStream] = {}

    def events(self, chunk: GenerateChunk, usage: EventUsage) -> list[bytes]:
        """See event_writer.py."""
        index = chunk.index
        events: list[bytes] = []
        choice = self._choices.get(index)
        if choice is None:
            choice = self._choices[index] = self._new_choice()
            events.append(self._format.opening(index, usage))
        if choice.tokens is not None:
            choice.waiting.extend(choice.tokens.add(chunk))
        for part in choice.reader.read(chunk):
            logprobs = choice.take_logprobs(self._chat.token_bytes)
            events.append(self._format.delta(index, _to_delta(part, choice.call_ids), usage, logprobs))
        if chunk.finish is not None:
            finish_type = choice.reader.finish_type(chunk.finish)
            logprobs = choice.take_logprobs(self._chat.token_bytes)
            events.append(
                self._format.finish(index, chunk.finish, usage, finish_type=finish_type, logprobs=logprobs)
            )
        return events

    def usage(self, usage: Usage) -> bytes:
        """See event_writer.py."""
        return self._format.usage(usage)

    def num_reasoning_tokens(self) -> int:
        """Of all choices so far."""
        return sum(choice.reader.num_reasoning_tokens for choice in self._choices.values())

    def _new_choice(self) -> _ChoiceStream:
        chat = self._chat
        return _ChoiceStream(chat.reader(), TokenRelease(chat.text_bytes) if chat.has_logprobs else None)


def _to_delta(part: AnswerPart, call_ids: CallIds) -> Delta:
    match part:
        case Content(text):
            return Delta(content=text)
        case Reasoning(text):
            return Delta(reasoning_content=text)
        case CallBegin(index, name, call_id):
            function = FunctionDelta(name=name, arguments="")
            made = call_ids.next(call_id)
            return Delta(tool_calls=[CallDelta(index=index, id=made, type="function", function=function)])
        case CallArguments(index, text):
            return Delta(tool_calls=[CallDelta(index=index, function=FunctionDelta(arguments=text))])
