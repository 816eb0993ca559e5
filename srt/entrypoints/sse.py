"""A generation sent as server-sent events: the 200 only when the engine has answered, everything ready in one send.

Errors are not handled here: before the first chunk they become a status, later the stream's last event, both in
srt/entrypoints/error_response.py. This is where the bytes leave.
"""

from typing import Protocol

from starlette.types import Send

from srt.engine_client import GenerateChunk, Generation
from srt.entrypoints.chunked_body import ChunkedBody

EVENT_STREAM = b"text/event-stream; charset=utf-8"
DONE = b"data: [DONE]\n\n"

_START = {
    "type": "http.response.start",
    "status": 200,
    "headers": [
        (b"content-type", EVENT_STREAM),
        (b"cache-control", b"no-cache"),
        (b"x-accel-buffering", b"no"),  # nginx would hold events back
    ],
}


def event(data: bytes) -> bytes:
    """One event with `data`, which holds no line break (JSON does not)."""
    return b"data: " + data + b"\n\n"


class EventWriter(Protocol):
    """Turns what an engine says into one API's events, as bytes."""

    def events(self, chunks: list[GenerateChunk]) -> bytes:
        """The events of these chunks, joined; empty when there is nothing to tell."""
        ...

    def last_events(self) -> bytes:
        """What follows when all choices have finished, `[DONE]` included."""
        ...


class TextEvent:
    """An event that differs only in one string: rendered once, cut there, and joined again for every token.

    `key` names the member, which is empty in `rendered`: b'"text"'. It cannot be mistaken for something inside a
    JSON string, where a quote follows a backslash.
    """

    __slots__ = ("after", "before")

    def __init__(self, rendered: bytes, key: bytes) -> None:
        self.before, found, self.after = rendered.partition(key + b':""')
        assert found, f"no {key!r} in {rendered!r}"
        self.before += key + b":"


class EventSink:
    """What is pushed leaves at once, as events. A ChunkSink."""

    __slots__ = ("_events", "_write", "is_ready")

    def __init__(self, writer: EventWriter, body: ChunkedBody) -> None:
        self._events = writer.events
        self._write = body.write
        self.is_ready = body.is_ready

    def push(self, chunks: list[GenerateChunk]) -> None:
        """See engine_client.py."""
        if events := self._events(chunks):
            self._write(events)


async def send_events(
    send: Send, generation: Generation, writer: EventWriter, body: ChunkedBody | None
) -> None:
    """Send all of it, and abort the generation if this ends early for whatever reason.

    With `body`, most of it goes there without a turn of this task for each token.
    """
    is_finished = False
    try:
        # Until there is a first chunk, a refusal can still become a real status.
        chunks = await anext(generation)
        await send(_START)
        if body is not None:
            generation.push_to(EventSink(writer, body))
        while True:
            if events := writer.events(chunks):
                await send({"type": "http.response.body", "body": events, "more_body": True})
            try:
                chunks = await anext(generation)
            except StopAsyncIteration:
                break
        is_finished = True
        await send({"type": "http.response.body", "body": writer.last_events()})
    finally:
        if body is not None:
            generation.push_to(None)  # it knows the writer, which knows the generation
        if not is_finished:
            generation.abort()
