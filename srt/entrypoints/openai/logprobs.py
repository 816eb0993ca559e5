"""Log-probabilities in OpenAI's two shapes, of chat and of completions."""

from collections.abc import Sequence
from typing import Annotated

import msgspec

from srt.entrypoints.openai.released_tokens import ReleasedTokens, TokenBytes

# OpenAI's limit in chat. In completions it has 5 and other servers have more, so it is this one there, too.
NumLogprobs = Annotated[int, msgspec.Meta(ge=0, le=20)]


class TopLogprob(msgspec.Struct, frozen=True, kw_only=True):
    """A token that was likely there."""

    token: str
    bytes: list[int]
    logprob: float


class TokenLogprob(msgspec.Struct, frozen=True, kw_only=True):
    """A token of the answer. `bytes` are exact; in `token` those that are no whole character are escaped."""

    token: str
    bytes: list[int]
    logprob: float
    top_logprobs: list[TopLogprob]


class ChatLogprobs(msgspec.Struct, frozen=True, kw_only=True):
    """Those of an answer, or of one chunk of it."""

    content: list[TokenLogprob]
    refusal: None = None


class CompletionLogprobs(msgspec.Struct, frozen=True, kw_only=True):
    """Columns, one entry a token. A prompt's first token has no log-probability, and no likely tokens beside it."""

    tokens: list[str]
    token_logprobs: list[float | None]
    top_logprobs: list[dict[str, float] | None]
    text_offset: list[int]


def to_chat_logprobs(released: ReleasedTokens, token_bytes: TokenBytes) -> ChatLogprobs:
    """In chat's shape."""
    content = []
    for token_id, logprob, top in zip(released.token_ids, released.logprobs, released.top, strict=True):
        data = token_bytes(token_id)
        content.append(
            TokenLogprob(
                token=_escaped(data),
                bytes=list(data),
                logprob=0.0 if logprob is None else logprob,
                top_logprobs=[_to_top_logprob(token_bytes(i), value) for i, value in top],
            )
        )
    return ChatLogprobs(content=content)


def to_completion_logprobs(released: ReleasedTokens, token_bytes: TokenBytes) -> CompletionLogprobs:
    """In completions' shape. The tokens beside a token are its own and the likeliest, as OpenAI has it."""
    return CompletionLogprobs(
        tokens=[spelled(token_bytes(token_id)) for token_id in released.token_ids],
        token_logprobs=list(released.logprobs),
        top_logprobs=[
            None if logprob is None else _by_spelling(token_id, logprob, top, token_bytes)
            for token_id, logprob, top in zip(
                released.token_ids, released.logprobs, released.top, strict=True
            )
        ],
        text_offset=list(released.offsets),
    )


def spelled(data: bytes) -> str:
    """A token's text; of one that is no whole characters, `bytes:` and escapes."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return "bytes:" + _escaped(data)


def _escaped(data: bytes) -> str:
    return data.decode(errors="backslashreplace")


def _to_top_logprob(data: bytes, logprob: float) -> TopLogprob:
    return TopLogprob(token=_escaped(data), bytes=list(data), logprob=logprob)


def _by_spelling(
    token_id: int, logprob: float, top: Sequence[tuple[int, float]], token_bytes: TokenBytes
) -> dict[str, float]:
    """Where two tokens are spelled alike, the likelier one is kept: an object cannot hold both."""
    by_spelling: dict[str, float] = {}
    for other_id, value in (*top, (token_id, logprob)):
        spelling = spelled(token_bytes(other_id))
        by_spelling[spelling] = max(value, by_spelling.get(spelling, value))
    return by_spelling
