"""Is the server alive, can it serve, and does a token come out of it?"""

import asyncio
import logging

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from srt.engine_client import EngineClient, GenerateRequest, TokenPrompt
from srt.entrypoints.choices import collect_choices
from srt.errors import RequestFailed, ServerNotReady
from srt.sampling.params import SamplingParams
from srt.util.patience import patience

logger = logging.getLogger(__name__)

PROBE_TIMEOUT_S = 20.0


class HealthChecks:
    """Answers out of memory, but for `check_by_generating`."""

    def __init__(self, client: EngineClient) -> None:
        self._client = client
        self._probing: asyncio.Task[None] | None = None

    async def check_alive(self, request: Request) -> Response:
        """/live: 200 while every process shows signs of life, also when nothing new is taken; else restart it."""
        health = self._client.health()
        if not health.is_alive:
            raise ServerNotReady(health.detail)
        return JSONResponse({"status": "ok"})

    async def check(self, request: Request) -> Response:
        """/health, /ready, /ping: 200 while the engine, or a part of it, lives and takes requests, however busy."""
        return JSONResponse(self._status())

    async def check_by_generating(self, request: Request) -> Response:
        """/health_generate: one token goes the whole way through each replica, within PROBE_TIMEOUT_S."""
        status = self._status()
        # One at a time, however many ask: while the engine hangs, they must not pile up in it.
        if self._probing is None or self._probing.done():
            self._probing = asyncio.create_task(self._probe(), name="health probe")
            self._probing.add_done_callback(lambda task: task.cancelled() or task.exception())
        await asyncio.shield(self._probing)
        return JSONResponse(status)

    def _status(self) -> dict[str, str]:
        """What may be said with a 200. Raises ServerNotReady."""
        health = self._client.health()
        if not health.ok:
            raise ServerNotReady(health.detail or "the engine is not ready")
        # Still a 200: a probe that fails would end the replicas that live, and their requests.
        return {"status": "degraded", "detail": health.detail} if health.detail else {"status": "ok"}

    async def _probe(self) -> None:
        """Raises ServerNotReady."""
        ranks = [load.dp_rank for load in self._client.loads() if load.is_alive]
        try:
            async with patience(PROBE_TIMEOUT_S):
                for dp_rank in ranks if len(ranks) > 1 else [None]:
                    await collect_choices(await self._client.generate(_one_token(dp_rank)), 1)
        except TimeoutError:
            logger.warning("health probe: no token within %.0f s", PROBE_TIMEOUT_S)
            raise ServerNotReady(f"no token within {PROBE_TIMEOUT_S:.0f} s") from None
        except RequestFailed as failure:
            raise ServerNotReady(failure.message) from failure


def _one_token(dp_rank: int | None) -> GenerateRequest:
    return GenerateRequest(
        prompts=[TokenPrompt([0])],
        sampling=[SamplingParams(max_new_tokens=1, temperature=0.0)],
        stream=False,
        timeout_s=PROBE_TIMEOUT_S,
        dp_rank=dp_rank,
        is_probe=True,
    )
