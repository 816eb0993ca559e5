"""The events of a response's stream, as OpenAI spells them. Each has a number, from 0."""

import msgspec

from srt.entrypoints.openai.logprobs import TokenLogprob
from srt.entrypoints.openai.responses.answer import OutputItem, OutputText, ReasoningText, Response


class ResponseCreated(msgspec.Struct, frozen=True, tag="response.created", kw_only=True):
    """It has begun."""

    sequence_number: int
    response: Response


class ResponseInProgress(msgspec.Struct, frozen=True, tag="response.in_progress", kw_only=True):
    """It is being computed."""

    sequence_number: int
    response: Response


class ResponseCompleted(msgspec.Struct, frozen=True, tag="response.completed", kw_only=True):
    """It is whole."""

    sequence_number: int
    response: Response


class ResponseIncomplete(msgspec.Struct, frozen=True, tag="response.incomplete", kw_only=True):
    """It was cut off: too long, or aborted."""

    sequence_number: int
    response: Response


class ResponseFailed(msgspec.Struct, frozen=True, tag="response.failed", kw_only=True):
    """Something went wrong, and this is the last event."""

    sequence_number: int
    response: Response


class ItemAdded(msgspec.Struct, frozen=True, tag="response.output_item.added", kw_only=True):
    """An item begins."""

    sequence_number: int
    output_index: int
    item: OutputItem


class ItemDone(msgspec.Struct, frozen=True, tag="response.output_item.done", kw_only=True):
    """An item is as complete as it will be."""

    sequence_number: int
    output_index: int
    item: OutputItem


class PartAdded(msgspec.Struct, frozen=True, tag="response.content_part.added", kw_only=True):
    """The only part of an item begins."""

    sequence_number: int
    item_id: str
    output_index: int
    content_index: int = 0
    part: OutputText | ReasoningText


class PartDone(msgspec.Struct, frozen=True, tag="response.content_part.done", kw_only=True):
    """The part is as complete as it will be."""

    sequence_number: int
    item_id: str
    output_index: int
    content_index: int = 0
    part: OutputText | ReasoningText


class TextDelta(msgspec.Struct, frozen=True, tag="response.output_text.delta", kw_only=True):
    """More text."""

    sequence_number: int
    item_id: str
    output_index: int
    content_index: int = 0
    delta: str
    logprobs: list[TokenLogprob] = []


class TextDone(msgspec.Struct, frozen=True, tag="response.output_text.done", kw_only=True):
    """All of the text."""

    sequence_number: int
    item_id: str
    output_index: int
    content_index: int = 0
    text: str
    logprobs: list[TokenLogprob] = []


class ReasoningDelta(msgspec.Struct, frozen=True, tag="response.reasoning_text.delta", kw_only=True):
    """More thoughts."""

    sequence_number: int
    item_id: str
    output_index: int
    content_index: int = 0
    delta: str


class ReasoningDone(msgspec.Struct, frozen=True, tag="response.reasoning_text.done", kw_only=True):
    """All thoughts."""

    sequence_number: int
    item_id: str
    output_index: int
    content_index: int = 0
    text: str


class ArgumentsDelta(msgspec.Struct, frozen=True, tag="response.function_call_arguments.delta", kw_only=True):
    """More of a call's arguments."""

    sequence_number: int
    item_id: str
    output_index: int
    delta: str


class ArgumentsDone(msgspec.Struct, frozen=True, tag="response.function_call_arguments.done", kw_only=True):
    """All arguments."""

    sequence_number: int
    item_id: str
    output_index: int
    name: str
    arguments: str


DeltaEvent = TextDelta | ReasoningDelta | ArgumentsDelta
ResponseEvent = (
    ResponseCreated
    | ResponseInProgress
    | ResponseCompleted
    | ResponseIncomplete
    | ResponseFailed
    | ItemAdded
    | ItemDone
    | PartAdded
    | PartDone
    | TextDone
    | ReasoningDone
    | ArgumentsDone
    | DeltaEvent
)


def render(event: ResponseEvent) -> bytes:
    """As bytes, with the type twice, as OpenAI sends it."""
    name: str = event.__struct_config__.tag  # type: ignore[assignment]
    return b"event: %b\ndata: %b\n\n" % (name.encode(), msgspec.json.encode(event))
