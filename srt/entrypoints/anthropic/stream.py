"""GenerateChunks to the events of one of Anthropic's streams: a message, its blocks one after the other, its end.

A token costs a JSON string and a join; everything around it was rendered once a block.
Next on the request's path: srt/entrypoints/sse.py
"""

import msgspec
import orjson

from srt.engine_client import FinishReason, GenerateChunk
from srt.entrypoints.anthropic.answer import CALL_ID_PREFIX, stop_reason, stop_sequence, to_usage
from srt.entrypoints.anthropic.protocol import (
    AnswerBlock,
    BlockDelta,
    BlockStart,
    BlockStop,
    InputJsonDelta,
    MessageDelta,
    MessageResponse,
    MessageStart,
    MessageStop,
    StopDelta,
    StreamEvent,
    TextBlock,
    TextDelta,
    ThinkingBlock,
    ThinkingDelta,
    ToolUseBlock,
)
from srt.entrypoints.openai.chat.call_ids import CallIds
from srt.entrypoints.openai.chat.running import RunningChat
from srt.entrypoints.openai.chat.runs import AnswerRuns, RunBegin, RunText
from srt.entrypoints.sse import TextEvent
from srt.parsers.answer import Reasoning


def render(event: StreamEvent) -> bytes:
    """An event with its type twice, as Anthropic's clients expect."""
    name: str = event.__struct_config__.tag  # type: ignore[assignment]
    return b"event: %b\ndata: %b\n\n" % (name.encode(), msgspec.json.encode(event))


class MessageEventWriter:
    """One stream's events. Where all text is content, nothing looks at it on its way."""

    def __init__(self, chat: RunningChat, *, model: str, max_tokens: int, shows_thinking: bool) -> None:
        self._message_id = chat.generation.request_id
        self._model = model
        self._max_tokens = max_tokens
        self._shows_thinking = shows_thinking
        self._is_plain = chat.plan.is_plain
        self._runs = AnswerRuns(chat.reader(), is_plain=self._is_plain)
        self._call_ids = CallIds(CALL_ID_PREFIX)
        self._has_begun = False
        self._num_blocks = 0
        self._delta: TextEvent | None = None  # of the block that is open
        self._is_hidden = False  # what the open block holds is not shown

    def events(self, chunks: list[GenerateChunk]) -> bytes:
        """See srt/entrypoints/sse.py."""
        written: list[bytes] = []
        for chunk in chunks:
            if not self._has_begun:
                self._begin(chunk, written)
            if self._is_plain and self._delta is not None:
                if chunk.text:
                    self._text(chunk.text, written)
            else:
                for step in self._runs.read(chunk):
                    match step:
                        case RunBegin():
                            self._open_block(step, written)
                        case RunText(text):
                            self._text(text, written)
            if chunk.finish is not None:
                self._finish(chunk, chunk.finish, written)
        return b"".join(written)

    def last_events(self) -> bytes:
        """See srt/entrypoints/sse.py."""
        return render(MessageStop())

    def _begin(self, chunk: GenerateChunk, written: list[bytes]) -> None:
        self._has_begun = True
        message = MessageResponse(
            id=self._message_id,
            model=self._model,
            content=[],
            stop_reason=None,
            stop_sequence=None,
            usage=to_usage(chunk, output_tokens=0),
        )
        written.append(render(MessageStart(message=message)))

    def _text(self, text: str, written: list[bytes]) -> None:
        assert self._delta is not None, "a block is open"
        if not self._is_hidden:
            written += (self._delta.before, orjson.dumps(text), self._delta.after)

    def _open_block(self, begin: RunBegin, written: list[bytes]) -> None:
        self._close_block(written)
        index = self._num_blocks
        self._num_blocks += 1
        self._is_hidden = begin.kind is Reasoning and not self._shows_thinking
        block: AnswerBlock
        delta: TextDelta | ThinkingDelta | InputJsonDelta
        if begin.call is not None:
            made = self._call_ids.next(begin.call.id)
            block, delta = ToolUseBlock(id=made, name=begin.call.name, input={}), InputJsonDelta("")
            key = b'"partial_json"'
        elif begin.kind is Reasoning:
            block, delta, key = ThinkingBlock(thinking=""), ThinkingDelta(""), b'"thinking"'
        else:
            block, delta, key = TextBlock(text=""), TextDelta(""), b'"text"'
        self._delta = TextEvent(render(BlockDelta(index=index, delta=delta)), key)
        written.append(render(BlockStart(index=index, content_block=block)))

    def _close_block(self, written: list[bytes]) -> None:
        if self._delta is not None:
            written.append(render(BlockStop(index=self._num_blocks - 1)))
            self._delta = None

    def _finish(self, chunk: GenerateChunk, finish: FinishReason, written: list[bytes]) -> None:
        self._close_block(written)
        reason = stop_reason(
            self._runs.finish_type(finish),
            finish,
            num_tokens=chunk.completion_tokens,
            max_tokens=self._max_tokens,
        )
        delta = StopDelta(stop_reason=reason, stop_sequence=stop_sequence(finish))
        written.append(render(MessageDelta(delta=delta, usage=to_usage(chunk))))
