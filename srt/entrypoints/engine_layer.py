"""`EngineLayer`: an EngineClient that passes everything on to another one, for those who add to one call of it."""

from collections.abc import Mapping, Sequence
from typing import Any

from srt.engine_client import (
    EngineClient,
    GenerateRequest,
    Generation,
    Health,
    LoadSnapshot,
    Prompt,
)
from srt.observability.exposition import Family
from srt.observability.front_counts import FrontCounts


class EngineLayer:
    """See EngineClient for what each call promises."""

    def __init__(self, engine: EngineClient) -> None:
        self._engine = engine
        self.model_info = engine.model_info
        self.counts = engine.counts

    async def generate(self, request: GenerateRequest) -> Generation:
        """Dispatch."""
        return await self._engine.generate(request)

    async def tokenize(self, prompt: Prompt, *, add_special_tokens: bool = True) -> list[int]:
        """Token ids of a prompt."""
        return await self._engine.tokenize(prompt, add_special_tokens=add_special_tokens)

    async def detokenize(self, token_ids: Sequence[int], *, skip_special_tokens: bool = True) -> str:
        """Text of token ids."""
        return await self._engine.detokenize(token_ids, skip_special_tokens=skip_special_tokens)

    def token_bytes(self, token_id: int, *, skip_special_tokens: bool = False) -> bytes:
        """What one token is in the text."""
        return self._engine.token_bytes(token_id, skip_special_tokens=skip_special_tokens)

    def abort(self, rid: str) -> None:
        """End what has this rid."""
        self._engine.abort(rid)

    def abort_all(self) -> None:
        """End everything."""
        self._engine.abort_all()

    async def flush_cache(self, *, timeout_s: float = 0.0) -> str | None:
        """Forget cached prefixes."""
        return await self._engine.flush_cache(timeout_s=timeout_s)

    async def server_states(self) -> Sequence[Mapping[str, Any]]:
        """Facts and figures."""
        return await self._engine.server_states()

    def loads(self) -> Sequence[LoadSnapshot]:
        """How busy each replica is."""
        return self._engine.loads()

    def worker_states(self) -> Sequence[Mapping[str, Any]]:
        """Figures of each process that serves HTTP."""
        return self._engine.worker_states()

    def all_counts(self) -> Sequence[FrontCounts]:
        """What each of them has counted."""
        return self._engine.all_counts()

    def metrics(self) -> Sequence[Family]:
        """For /metrics."""
        return self._engine.metrics()

    def health(self) -> Health:
        """Liveness."""
        return self._engine.health()
