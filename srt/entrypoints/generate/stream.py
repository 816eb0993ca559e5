"""GenerateChunks to native events.

Cumulative, as SGLang's are: each event holds the whole text, all ids and all log-probabilities so far. What was sent
before is kept as rendered JSON, so that a token costs its own rendering and a copy of what precedes it. With
`is_incremental` (--incremental-streaming-output) an event holds what is new, and the prompt's lists come once.
"""

from dataclasses import dataclass, field
from typing import Any

import orjson

from srt.engine_client import GenerateChunk, Logprobs
from srt.entrypoints.generate.answer_facts import AnswerFacts
from srt.entrypoints.generate.logprobs import describe_logprobs
from srt.entrypoints.generate.metadata import MetaInfo
from srt.entrypoints.sse import DONE, event

_COUNT = b'"completion_tokens":'


@dataclass(slots=True)
class _Rendered:
    """One choice so far: the insides of a JSON string and of arrays; what stands around the count of tokens."""

    text: bytearray = field(default_factory=bytearray)
    token_ids: bytearray = field(default_factory=bytearray)
    lists: dict[str, bytearray] = field(default_factory=dict)  # of log-probabilities, by name
    prompt_ids: bytes = b""
    before_count: bytes = b""
    after_count: bytes = b""

    def add(self, chunk: GenerateChunk) -> None:
        self.text += orjson.dumps(chunk.text)[1:-1]
        if chunk.token_ids:
            _append(self.token_ids, chunk.token_ids)

    def add_lists(self, described: dict[str, list[Any]]) -> None:
        for name, entries in described.items():
            rendered = self.lists.setdefault(name, bytearray())
            if entries:
                _append(rendered, entries)

    def forget_content(self) -> None:
        self.text.clear()
        self.token_ids.clear()
        self.lists.clear()
        self.prompt_ids = b""


class NativeEventWriter:
    """One stream's events. Where the answer is a list, each says its `index` in it."""

    def __init__(self, facts: AnswerFacts, *, is_list: bool, is_incremental: bool, meta: MetaInfo) -> None:
        self._facts = facts
        self._is_list = is_list
        self._is_incremental = is_incremental
        self._meta = meta
        self._choices: dict[int, _Rendered] = {}

    def events(self, chunks: list[GenerateChunk]) -> bytes:
        """See srt/entrypoints/sse.py."""
        parts = []
        for chunk in chunks:
            choice = self._choices.get(chunk.index)
            if choice is None:
                choice = self._choices[chunk.index] = _Rendered()
                self._add_prompt(choice, chunk)
            choice.add(chunk)
            if self._facts.logprobs:
                self._add_logprobs(choice, chunk)
            parts.append(self._event(chunk, choice))
            if self._is_incremental:
                choice.forget_content()
        return b"".join(parts)

    def last_events(self) -> bytes:
        """See srt/entrypoints/sse.py."""
        return DONE

    def _add_prompt(self, choice: _Rendered, chunk: GenerateChunk) -> None:
        prompt_ids = self._facts.prompt_of(chunk.index)
        if prompt_ids is not None:
            choice.prompt_ids = b',"prompt_token_ids":' + orjson.dumps(prompt_ids)
        options = self._facts.logprobs_of(chunk.index)
        if options is not None:
            told = chunk.prompt_logprobs or Logprobs()
            choice.add_lists(describe_logprobs("input", told, options, self._facts.text_of))

    def _add_logprobs(self, choice: _Rendered, chunk: GenerateChunk) -> None:
        options = self._facts.logprobs_of(chunk.index)
        if options is not None:
            told = chunk.logprobs or Logprobs()
            choice.add_lists(describe_logprobs("output", told, options, self._facts.text_of))

    def _event(self, chunk: GenerateChunk, choice: _Rendered) -> bytes:
        meta = self._render_meta(chunk, choice)
        if choice.lists:
            lists = [
                b'"%b":[%b]' % (name.encode(), bytes(rendered)) for name, rendered in choice.lists.items()
            ]
            lists.append(b'"output_token_logprobs_length":%d' % chunk.completion_tokens)
            meta = b"%b,%b}" % (meta[:-1], b",".join(lists))
        index = b',"index":%d' % chunk.index if self._is_list else b""
        text, token_ids = bytes(choice.text), bytes(choice.token_ids)
        return event(
            b'{"text":"%b","output_ids":[%b],"meta_info":%b%b%b}'
            % (text, token_ids, meta, choice.prompt_ids, index)
        )

    def _render_meta(self, chunk: GenerateChunk, choice: _Rendered) -> bytes:
        """Until it ends, only the count of tokens changes."""
        if chunk.finish is not None:
            return orjson.dumps(self._meta.describe(chunk, self._facts))
        if not choice.before_count:
            before, key, after = orjson.dumps(self._meta.describe(chunk, self._facts)).partition(_COUNT)
            choice.before_count, choice.after_count = before + key, after[after.index(b",") :]
        return b"%b%d%b" % (choice.before_count, chunk.completion_tokens, choice.after_count)


def _append(rendered: bytearray, entries: list[Any]) -> None:
    if rendered:
        rendered += b","
    rendered += orjson.dumps(entries)[1:-1]
