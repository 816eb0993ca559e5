"""`meta_info`: what the native API tells of a choice beside its text and ids."""

import time
from typing import Any

from srt.engine_client import FinishReason, GenerateChunk


class MetaInfo:
    """Tells it for the choices of one request, whose clock starts when this is made."""

    def __init__(self) -> None:
        self._started_at = time.perf_counter()

    def describe(self, chunk: GenerateChunk, rid: str) -> dict[str, Any]:
        """After `chunk`, the latest of its choice. The latency is there once the choice has finished."""
        meta: dict[str, Any] = {
            "id": rid,
            "finish_reason": _describe_finish(chunk),
            "prompt_tokens": chunk.prompt_tokens,
            "completion_tokens": chunk.completion_tokens,
            "cached_tokens": chunk.cached_tokens,
        }
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
