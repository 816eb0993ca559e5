"""Log-probabilities in SGLang's shapes: lists of [logprob, id, text or null], one entry a token."""

from collections.abc import Callable
from typing import Any, Literal

from srt.engine_client import LogprobOptions, Logprobs

Side = Literal["input", "output"]
TextOf = Callable[[int], str | None]


def no_text(token_id: int) -> str | None:
    """Of a token, when texts are not wanted."""
    return None


def describe_logprobs(
    side: Side, logprobs: Logprobs, options: LogprobOptions, text_of: TextOf
) -> dict[str, list[Any]]:
    """Each list that was asked for, by its name. A prompt's first token, of which nothing is known, has null."""
    described: dict[str, list[Any]] = {
        f"{side}_token_logprobs": [
            [logprob, token_id, text_of(token_id)]
            for logprob, token_id in zip(logprobs.logprobs, logprobs.token_ids, strict=True)
        ]
    }
    if options.num_top:
        described[f"{side}_top_logprobs"] = [
            [[logprob, token_id, text_of(token_id)] for token_id, logprob in top] or None
            for top in logprobs.top
        ]
    if options.token_ids:
        described[f"{side}_token_ids_logprobs"] = [
            [
                [logprob, token_id, text_of(token_id)]
                for token_id, logprob in zip(options.token_ids, asked, strict=True)
            ]
            if asked
            else None
            for asked in logprobs.asked
        ]
    return described
