"""A choice's tokens with their log-probabilities: where each begins in the text, given out once that much text is."""

import codecs
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from srt.engine_client import GenerateChunk, Logprobs

# What a token is, by its id.
TokenBytes = Callable[[int], bytes]


@dataclass(slots=True)
class ReleasedTokens:
    """Columns, one entry a token. `offsets` count characters from the beginning of the choice's text."""

    token_ids: list[int] = field(default_factory=list)
    logprobs: list[float | None] = field(default_factory=list)
    top: list[list[tuple[int, float]]] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)

    def extend(self, other: "ReleasedTokens") -> None:
        """Append the tokens that follow."""
        self.token_ids += other.token_ids
        self.logprobs += other.logprobs
        self.top += other.top
        self.offsets += other.offsets


class TextOffsets:
    """Where each token of a text begins, in characters. A token inside a character begins where that begins."""

    __slots__ = ("_num_chars", "_text_bytes", "_utf8")

    def __init__(self, text_bytes: TokenBytes, *, start: int = 0) -> None:
        """`text_bytes` says what a token is in the text: nothing, for a special one that is left out of it."""
        self._text_bytes = text_bytes
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")
        self._num_chars = start  # whole ones so far

    def add(self, token_id: int) -> int:
        """Where the next token begins."""
        data = self._text_bytes(token_id)
        offset = self._num_chars
        if data and self._utf8.getstate()[0]:
            first = self._utf8.decode(data[:1])
            # The character that was begun is broken off, unless this byte goes on with it: then it is U+FFFD alone.
            offset += len(first) == 2 or (len(first) == 1 and bool(self._utf8.getstate()[0]))
            self._num_chars += len(first)
            data = data[1:]
        self._num_chars += len(self._utf8.decode(data))
        return offset

    @property
    def num_chars(self) -> int:
        """The length of the text so far, a character that is only begun not counted."""
        return self._num_chars


class TokenRelease:
    """The tokens of one answer as its text comes, in streams and whole alike.

    Text that is held back holds its tokens back. What a stop string cut off is no part of the answer, nor are the
    tokens that begin there. The token that ended the answer, which is no text, is given out if `keeps_stop_token`.
    """

    __slots__ = ("_held", "_keeps_stop_token", "_num_released_chars", "_offsets")

    def __init__(self, text_bytes: TokenBytes, *, start: int = 0, keeps_stop_token: bool = False) -> None:
        self._offsets = TextOffsets(text_bytes, start=start)
        self._keeps_stop_token = keeps_stop_token
        self._num_released_chars = start
        self._held: deque[tuple[int, int, float | None, list[tuple[int, float]]]] = deque()

    def add(self, chunk: GenerateChunk) -> ReleasedTokens:
        """The tokens that this chunk's text gives out."""
        self._num_released_chars += len(chunk.text)
        if chunk.logprobs is not None:
            self._hold(chunk.logprobs, 0 if self._keeps_stop_token else chunk.num_trimmed_tokens)
        # All that is left belongs to a text that has ended by itself; a stop string cut some of it off.
        is_all = chunk.finish is not None and not isinstance(chunk.finish.matched, str)
        released = ReleasedTokens()
        while self._held and (is_all or self._held[0][0] < self._num_released_chars):
            offset, token_id, logprob, top = self._held.popleft()
            released.token_ids.append(token_id)
            released.logprobs.append(logprob)
            released.top.append(top)
            released.offsets.append(offset)
        return released

    def _hold(self, logprobs: Logprobs, num_trimmed: int) -> None:
        num_tokens = len(logprobs.token_ids) - num_trimmed
        for token_id, logprob, top in zip(
            logprobs.token_ids[:num_tokens],
            logprobs.logprobs[:num_tokens],
            logprobs.top[:num_tokens],
            strict=True,
        ):
            self._held.append((self._offsets.add(token_id), token_id, logprob, top))


def prompt_tokens(prompt: Logprobs, text: str, text_bytes: TokenBytes) -> ReleasedTokens:
    """The tokens of a prompt that is shown as `text`."""
    offsets = TextOffsets(text_bytes)
    starts = [offsets.add(token_id) for token_id in prompt.token_ids]
    # Some tokenizers write a space in front of a text, which its first token then has and the text has not.
    surplus = max(offsets.num_chars - len(text), 0)
    return ReleasedTokens(
        token_ids=list(prompt.token_ids),
        logprobs=list(prompt.logprobs),
        top=list(prompt.top),
        offsets=[_between(start - surplus, len(text)) for start in starts],
    )


def _between(offset: int, length: int) -> int:
    return min(max(offset, 0), length)
