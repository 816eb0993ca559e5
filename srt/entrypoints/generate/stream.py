"""GenerateChunks to native events. Cumulative, as SGLang's are: each event holds the whole text and all ids so far.

What was sent before is kept as rendered JSON, so that a token costs its own rendering and a copy of what precedes it.
"""

from dataclasses import dataclass, field

import orjson

from srt.engine_client import GenerateChunk
from srt.entrypoints.generate.metadata import MetaInfo
from srt.entrypoints.sse import DONE, event


@dataclass(slots=True)
class _Rendered:
    """One choice so far: the inside of a JSON string, and of a JSON array."""

    text: bytearray = field(default_factory=bytearray)
    token_ids: bytearray = field(default_factory=bytearray)

    def add(self, chunk: GenerateChunk) -> None:
        self.text += orjson.dumps(chunk.text)[1:-1]
        if chunk.token_ids:
            if self.token_ids:
                self.token_ids += b","
            self.token_ids += orjson.dumps(chunk.token_ids)[1:-1]


class NativeEventWriter:
    """One stream's events. Where the answer is a list, each says its `index` in it."""

    def __init__(self, *, rid: str, is_list: bool, meta: MetaInfo) -> None:
        self._rid = rid
        self._is_list = is_list
        self._meta = meta
        self._choices: dict[int, _Rendered] = {}

    def events(self, chunks: list[GenerateChunk]) -> bytes:
        """See srt/entrypoints/sse.py."""
        parts = []
        for chunk in chunks:
            choice = self._choices.setdefault(chunk.index, _Rendered())
            choice.add(chunk)
            parts.append(self._event(chunk, choice))
        return b"".join(parts)

    def last_events(self) -> bytes:
        """See srt/entrypoints/sse.py."""
        return DONE

    def _event(self, chunk: GenerateChunk, choice: _Rendered) -> bytes:
        meta = orjson.dumps(self._meta.describe(chunk, self._rid))
        index = b',"index":%d' % chunk.index if self._is_list else b""
        text, token_ids = bytes(choice.text), bytes(choice.token_ids)
        return event(b'{"text":"%b","output_ids":[%b],"meta_info":%b%b}' % (text, token_ids, meta, index))
