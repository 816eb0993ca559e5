"""`LoggedEngine`: an EngineClient that tells the log what it is asked and what it answers (`--log-requests`).

Four levels, SGLang's: 0 names and figures, 1 and sampling settings, 2 and the first 2,048 characters of prompt and
answer, 3 and all of them. Nothing below 2 shows anything of what was written; of stop strings, how many there are.
Nothing of this exists unless asked for.
"""

import logging
import time
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import msgspec

from srt.engine_client import (
    ChatPrompt,
    ChunkSink,
    EngineClient,
    GenerateChunk,
    GenerateRequest,
    Generation,
    Outcome,
    Prompt,
    TextPrompt,
    TokenPrompt,
)
from srt.entrypoints.engine_layer import EngineLayer
from srt.errors import RequestError
from srt.observability.logging import fields
from srt.observability.redaction import redact

SAMPLING, SHORT_TEXT, WHOLE_TEXT = 1, 2, 3
MAX_CHARS = 2048


class LoggedEngine(EngineLayer):
    """Everything but `generate` is passed through."""

    def __init__(self, engine: EngineClient, logger: logging.Logger, level: int) -> None:
        super().__init__(engine)
        self._logger = logger
        self._level = level

    async def generate(self, request: GenerateRequest) -> Generation:
        """Log what was asked, then pass on what is answered and log that."""
        begun = time.monotonic()
        about = self._asked(request)
        try:
            generation = await self._engine.generate(request)
        except RequestError as error:
            told = fields(**about, status=error.status, error=redact(error.message, MAX_CHARS))
            self._logger.info("request refused", extra=told)
            raise
        self._logger.info("request received", extra=fields(**{**about, "rid": generation.request_id}))
        return LoggedGeneration(generation, self._logger, self._max_chars, begun)

    @property
    def _max_chars(self) -> int | None:
        """Of a text; 0: none."""
        return None if self._level >= WHOLE_TEXT else MAX_CHARS if self._level >= SHORT_TEXT else 0

    def _asked(self, request: GenerateRequest) -> dict[str, Any]:
        told: dict[str, Any] = {
            "rid": request.rid,
            "stream": request.stream,
            "num_prompts": len(request.prompts),
            "n": request.sampling[0].n,
        }
        if self._level >= SAMPLING:
            sampling = msgspec.structs.asdict(request.sampling[0])
            if self._max_chars == 0:  # what an answer is to stop at is text, too
                sampling["stop"] = len(sampling["stop"])
            told["sampling"] = sampling
        if self._max_chars != 0:
            told["prompts"] = [redact(self._text(prompt), self._max_chars) for prompt in request.prompts]
        return told

    def _text(self, prompt: Prompt) -> str:
        match prompt:
            case TextPrompt(text):
                return text
            case ChatPrompt(messages=messages):
                return msgspec.json.encode(messages).decode()
            case TokenPrompt(token_ids):
                # As they came: to decode a long prompt would hold up every stream.
                return str(token_ids[: self._max_chars])


class LoggedGeneration:
    """A Generation that logs its end. `max_chars` of each answer are shown; 0: nothing, None: all."""

    def __init__(
        self, generation: Generation, logger: logging.Logger, max_chars: int | None, begun: float
    ) -> None:
        self._generation = generation
        self._logger = logger
        self._max_chars = max_chars
        self._begun = begun
        self._first_token_s: float | None = None
        self._last_chunks: dict[int, GenerateChunk] = {}
        self._texts: dict[int, list[str]] = {}
        self._is_over = False
        self.request_id = generation.request_id
        self.prompt_token_ids = generation.prompt_token_ids

    def __aiter__(self) -> AsyncIterator[list[GenerateChunk]]:
        return self

    async def __anext__(self) -> list[GenerateChunk]:
        """The same chunks."""
        try:
            chunks = await anext(self._generation)
        except StopAsyncIteration:
            self._end("request finished")
            raise
        except RequestError as error:
            self._end("request failed", status=error.status, error=redact(error.message, MAX_CHARS))
            raise
        if self._first_token_s is None:
            self._first_token_s = time.monotonic() - self._begun
        self._note(chunks)
        return chunks

    def push_to(self, sink: ChunkSink | None) -> None:
        """The same, past what notes the chunks."""
        self._generation.push_to(None if sink is None else _NotingSink(self._note, sink))

    def outcomes(self) -> Sequence[Outcome]:
        """Of each choice."""
        return self._generation.outcomes()

    def abort(self) -> None:
        """Give up."""
        self._end("request aborted")
        self._generation.abort()

    def _note(self, chunks: list[GenerateChunk]) -> None:
        for chunk in chunks:
            self._last_chunks[chunk.index] = chunk
            if self._max_chars != 0:
                self._texts.setdefault(chunk.index, []).append(chunk.text)

    def _end(self, what: str, **more: Any) -> None:
        if self._is_over:
            return
        self._is_over = True
        last = [chunk for _, chunk in sorted(self._last_chunks.items())]
        told: dict[str, Any] = {
            "rid": self.request_id,
            "finish_reasons": [chunk.finish.type if chunk.finish else None for chunk in last],
            "prompt_tokens": sum(map(len, self.prompt_token_ids)),
            "completion_tokens": sum(chunk.completion_tokens for chunk in last),
            "cached_tokens": sum(chunk.cached_tokens for chunk in last),
            "first_chunk_s": None if self._first_token_s is None else round(self._first_token_s, 4),
            "duration_s": round(time.monotonic() - self._begun, 4),
            **more,
        }
        if self._max_chars != 0:
            texts = ["".join(texts) for _, texts in sorted(self._texts.items())]
            told["answers"] = [redact(text, self._max_chars) for text in texts]
        self._logger.info(what, extra=fields(**told))


class _NotingSink:
    """Another sink, which is shown everything on its way."""

    def __init__(self, note: Callable[[list[GenerateChunk]], None], sink: ChunkSink) -> None:
        self._note = note
        self._sink = sink
        self.is_ready = sink.is_ready

    def push(self, chunks: list[GenerateChunk]) -> None:
        self._note(chunks)
        self._sink.push(chunks)
