"""`meta_info`: what the native API tells of a choice beside its text and ids."""

import time
from typing import Any

from srt.engine_client import FinishReason, GenerateChunk
from srt.entrypoints.generate.answer_facts import AnswerFacts

# Weights stay as they were loaded.
WEIGHT_VERSION = "default"


class MetaInfo:
    """Tells it for the choices of one request, whose clock starts when this is made."""

    def __init__(self) -> None:
        self._started_at = time.perf_counter()

    def describe(self, chunk: GenerateChunk, facts: AnswerFacts) -> dict[str, Any]:
        """After `chunk`, the latest of its choice. The latency is there once the choice has finished."""
        meta: dict[str, Any] = {
            "id": facts.rid_of(chunk.index),
            "finish_reason": _describe_finish(chunk),
            "prompt_tokens": chunk.prompt_tokens,
            "weight_version": WEIGHT_VERSION,
            "num_retractions": chunk.num_retractions,
            "completion_tokens": chunk.completion_tokens,
            "cached_tokens": chunk.cached_tokens,
            "cached_tokens_details": {"device": chunk.cached_tokens, "host": 0},
            "reasoning_tokens": 0,  # /generate does not look for reasoning
        }
        if facts.dp_rank is not None:
            meta["dp_rank"] = facts.dp_rank
        if chunk.finish is not None:
            meta["e2e_latency"] = time.perf_counter() - self._started_at
        return meta


def _describe_finish(chunk: GenerateChunk) -> dict[str, Any] | None:
    match chunk.finish:
        case None:
            return None
        case FinishReason(type="stop", matched=matched):
            return {"type": "stop", "matched": matched}
        case FinishReason(type="length"):
            return {"type": "length", "length": chunk.completion_tokens}
        case FinishReason(message=message, status_code=status_code):
            return {"type": "abort", "message": message, "status_code": status_code}
