"""GenerateChunks to the events of one response's stream: the response, its items one after the other, its end.

A token costs a JSON string, a number and a join; everything around them was rendered once an item.
Next on the request's path: srt/entrypoints/sse.py
"""

import time
from collections.abc import Sequence

import msgspec
import orjson

from srt.engine_client import FinishReason, GenerateChunk
from srt.entrypoints.openai.chat.running import RunningChat
from srt.entrypoints.openai.chat.runs import AnswerRuns, RunBegin, RunText
from srt.entrypoints.openai.logprobs import TokenLogprob
from srt.entrypoints.openai.responses.answer import (
    CallItem,
    ItemFactory,
    MessageItem,
    OutputItem,
    OutputText,
    ReasoningItem,
    ReasoningText,
    Response,
    ResponseErrorFields,
    Status,
    ended,
    item_status,
    with_text,
)
from srt.entrypoints.openai.responses.events import (
    ArgumentsDelta,
    ArgumentsDone,
    DeltaEvent,
    ItemAdded,
    ItemDone,
    PartAdded,
    PartDone,
    ReasoningDelta,
    ReasoningDone,
    ResponseCompleted,
    ResponseCreated,
    ResponseFailed,
    ResponseIncomplete,
    ResponseInProgress,
    TextDelta,
    TextDone,
    render,
)
from srt.entrypoints.openai.responses.logprobs import TextLogprobs
from srt.entrypoints.sse import TextEvent
from srt.errors import RequestError

_NUMBER = b'"sequence_number":'


class _OpenItem:
    """The item that is being made, and its delta event, cut at its number and at its text."""

    __slots__ = ("before_number", "delta", "index", "item", "texts")

    def __init__(self, item: OutputItem, index: int) -> None:
        self.item = item
        self.index = index
        self.texts: list[str] = []
        before, _, rest = render(self._delta_event()).partition(_NUMBER + b"0")
        self.before_number = before + _NUMBER
        self.delta = TextEvent(rest, b'"delta"')

    def _delta_event(self) -> DeltaEvent:
        item_id, index = self.item.id, self.index
        if isinstance(self.item, CallItem):
            return ArgumentsDelta(sequence_number=0, item_id=item_id, output_index=index, delta="")
        if isinstance(self.item, MessageItem):
            return TextDelta(sequence_number=0, item_id=item_id, output_index=index, delta="")
        return ReasoningDelta(sequence_number=0, item_id=item_id, output_index=index, delta="")


class ResponseEventWriter:
    """One stream's events. Where all text is content, nothing looks at it on its way."""

    def __init__(self, chat: RunningChat, response: Response) -> None:
        self._response = response
        self._is_plain = chat.plan.is_plain
        self._logprobs = TextLogprobs.of(chat)
        self._runs = AnswerRuns(chat.reader(), is_plain=self._is_plain)
        self._factory = ItemFactory()
        self._items: list[OutputItem] = []  # those that are complete
        self._open: _OpenItem | None = None
        self._number = 0

    @property
    def has_begun(self) -> bool:
        """Whether there was an event yet."""
        return self._number > 0

    def events(self, chunks: list[GenerateChunk]) -> bytes:
        """See srt/entrypoints/sse.py."""
        written: list[bytes] = []
        for chunk in chunks:
            if not self.has_begun:
                written += self._begin()
            if self._logprobs is not None:
                self._logprobs.add(chunk)
            if self._is_plain and self._open is not None:
                if chunk.text:
                    self._text(self._open, chunk.text, written)
            else:
                self._read(chunk, written)
            if chunk.finish is not None:
                self._finish(chunk, chunk.finish, written)
        return b"".join(written)

    def last_events(self) -> bytes:
        """See srt/entrypoints/sse.py."""
        return b""

    def failure(self, error: RequestError) -> bytes:
        """The last event of a stream that had begun."""
        fields = ResponseErrorFields(code=error.code or error.error_type, message=error.message)
        failed = msgspec.structs.replace(self._response, status="failed", error=fields, output=self._items)
        return render(ResponseFailed(sequence_number=self._next(), response=failed))

    def _next(self) -> int:
        number = self._number
        self._number += 1
        return number

    def _begin(self) -> list[bytes]:
        return [
            render(ResponseCreated(sequence_number=self._next(), response=self._response)),
            render(ResponseInProgress(sequence_number=self._next(), response=self._response)),
        ]

    def _read(self, chunk: GenerateChunk, written: list[bytes]) -> None:
        for step in self._runs.read(chunk):
            match step:
                case RunBegin(kind, call):
                    self._close("completed", written)
                    self._open = _OpenItem(self._factory.begin(kind, call), len(self._items))
                    self._add(self._open, written)
                case RunText(text):
                    assert self._open is not None, "a run has begun"
                    self._text(self._open, text, written)

    def _text(self, made: _OpenItem, text: str, written: list[bytes]) -> None:
        made.texts.append(text)
        if self._logprobs is not None:
            delta = TextDelta(
                sequence_number=self._next(),
                item_id=made.item.id,
                output_index=made.index,
                delta=text,
                logprobs=self._logprobs.take(),
            )
            written.append(render(delta))
            return
        number = b"%d" % self._next()
        written += (made.before_number, number, made.delta.before, orjson.dumps(text), made.delta.after)

    def _add(self, made: _OpenItem, written: list[bytes]) -> None:
        added = ItemAdded(sequence_number=self._next(), output_index=made.index, item=made.item)
        written.append(render(added))
        if not isinstance(made.item, CallItem):
            begun = PartAdded(
                sequence_number=self._next(),
                item_id=made.item.id,
                output_index=made.index,
                part=_to_part(made.item, ""),
            )
            written.append(render(begun))

    def _close(self, status: Status, written: list[bytes]) -> None:
        made = self._open
        if made is None:
            return
        self._open = None
        text = "".join(made.texts)
        logprobs = [] if self._logprobs is None else self._logprobs.all
        item_id, index = made.item.id, made.index
        match made.item:
            case CallItem(name=name):
                written.append(
                    render(
                        ArgumentsDone(
                            sequence_number=self._next(),
                            item_id=item_id,
                            output_index=index,
                            name=name,
                            arguments=text,
                        )
                    )
                )
            case MessageItem():
                text_done = TextDone(
                    sequence_number=self._next(),
                    item_id=item_id,
                    output_index=index,
                    text=text,
                    logprobs=logprobs,
                )
                written.append(render(text_done))
            case ReasoningItem():
                thoughts_done = ReasoningDone(
                    sequence_number=self._next(), item_id=item_id, output_index=index, text=text
                )
                written.append(render(thoughts_done))
        if not isinstance(made.item, CallItem):
            part_done = PartDone(
                sequence_number=self._next(),
                item_id=item_id,
                output_index=index,
                part=_to_part(made.item, text, logprobs),
            )
            written.append(render(part_done))
        whole = with_text(made.item, text, status, logprobs)
        self._items.append(whole)
        written.append(render(ItemDone(sequence_number=self._next(), output_index=index, item=whole)))

    def _finish(self, chunk: GenerateChunk, finish: FinishReason, written: list[bytes]) -> None:
        self._close(item_status(finish), written)
        response = ended(
            self._response,
            self._items,
            finish,
            chunk,
            num_reasoning_tokens=self._runs.num_reasoning_tokens,
            completed_at=int(time.time()),
        )
        event = ResponseCompleted if response.status == "completed" else ResponseIncomplete
        written.append(render(event(sequence_number=self._next(), response=response)))


def _to_part(
    item: OutputItem, text: str, logprobs: Sequence[TokenLogprob] = ()
) -> OutputText | ReasoningText:
    if isinstance(item, MessageItem):
        return OutputText(text=text, logprobs=list(logprobs))
    return ReasoningText(text=text)
