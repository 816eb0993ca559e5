"""What the events of a chat stream look like: role first, then what the answer says, then why it ended.

Next on the request's path: srt/entrypoints/openai/event_writer.py
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec
import orjson

from srt.engine_client import FinishReason, GenerateChunk
from srt.entrypoints.openai.chat.answer import AnswerReader
from srt.entrypoints.openai.chat.call_ids import CallIds
from srt.entrypoints.openai.chat.protocol import CallDelta, ChatChunk, ChunkChoice, Delta, FunctionDelta
from srt.entrypoints.openai.chat.running import RunningChat
from srt.entrypoints.openai.logprobs import ChatLogprobs, to_chat_logprobs
from srt.entrypoints.openai.released_tokens import ReleasedTokens, TokenBytes, TokenRelease
from srt.entrypoints.openai.usage import EventUsage, Usage
from srt.entrypoints.sse import TextEvent, event
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
    """One choice while it is streamed. Log-probabilities wait for an event that they can go with.

    `text_events` are those that differ in nothing but a part's text.
    """

    reader: AnswerReader
    tokens: TokenRelease | None
    text_events: Mapping[type[AnswerPart], TextEvent]
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
            choice = self._choices[index] = self._new_choice(index, usage)
            events.append(event(self._format.opening(index, usage)))
        if choice.tokens is not None:
            choice.waiting.extend(choice.tokens.add(chunk))
        for part in choice.reader.read(chunk):
            text_event = choice.text_events.get(part.__class__)
            if text_event is not None and isinstance(part, Content | Reasoning):
                events += (text_event.before, orjson.dumps(part.text), text_event.after)
                continue
            logprobs = choice.take_logprobs(self._chat.token_bytes)
            delta = _to_delta(part, choice.call_ids)
            events.append(event(self._format.delta(index, delta, usage, logprobs)))
        if chunk.finish is not None:
            finish_type = choice.reader.finish_type(chunk.finish)
            logprobs = choice.take_logprobs(self._chat.token_bytes)
            end = self._format.finish(index, chunk.finish, usage, finish_type=finish_type, logprobs=logprobs)
            events.append(event(end))
        return events

    def usage(self, usage: Usage) -> bytes:
        """See event_writer.py."""
        return self._format.usage(usage)

    def num_reasoning_tokens(self) -> int:
        """Of all choices so far."""
        return sum(choice.reader.num_reasoning_tokens for choice in self._choices.values())

    def _new_choice(self, index: int, usage: EventUsage) -> _ChoiceStream:
        chat = self._chat
        return _ChoiceStream(
            chat.reader(),
            TokenRelease(chat.text_bytes) if chat.has_logprobs else None,
            {} if chat.has_logprobs or isinstance(usage, Usage) else self._text_events(index, usage),
        )

    def _text_events(self, index: int, usage: EventUsage) -> Mapping[type[AnswerPart], TextEvent]:
        content = self._format.delta(index, Delta(content=""), usage)
        reasoning = self._format.delta(index, Delta(reasoning_content=""), usage)
        return {
            Content: TextEvent(event(content), b'"content"'),
            Reasoning: TextEvent(event(reasoning), b'"reasoning_content"'),
        }


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
