"""Is the server alive, and can it serve?"""

import asyncio
import logging

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from srt.engine_client import EngineClient, GenerateRequest, TokenPrompt
from srt.entrypoints.choices import collect_choices
from srt.errors import QueueFull, RequestFailed, ServerNotReady
from srt.sampling.params import SamplingParams

logger = logging.getLogger(__name__)

PROBE_TIMEOUT_S = 20.0


class HealthChecks:
    """Answers out of memory, but for `check_by_generating`."""

    def __init__(self, client: EngineClient) -> None:
        self._client = client

    async def check(self, request: Request) -> Response:
        """/health, /ready, /ping: 200 while the engine shows signs of life, however busy it is, or a part of it."""
        return JSONResponse(self._status())

    async def check_by_generating(self, request: Request) -> Response:
        """/health_generate: one token goes the whole way, within PROBE_TIMEOUT_S."""
        status = self._status()
        probe = GenerateRequest(
            prompts=[TokenPrompt([0])],
            sampling=[SamplingParams(max_new_tokens=1, temperature=0.0)],
            stream=False,
        )
        try:
            async with asyncio.timeout(PROBE_TIMEOUT_S):
                await collect_choices(await self._client.generate(probe), 1)
        except TimeoutError:
            logger.warning("health probe: no token within %.0f s", PROBE_TIMEOUT_S)
            raise ServerNotReady(f"no token within {PROBE_TIMEOUT_S:.0f} s") from None
        except (QueueFull, RequestFailed) as refusal:
            # The scheduler is alive enough to say no; a busy server must not be restarted for it.
            if refusal.status != 503:
                raise
        return JSONResponse(status)

    def _status(self) -> dict[str, str]:
        """What may be said with a 200. Raises ServerNotReady."""
        health = self._client.health()
        if not health.ok:
            raise ServerNotReady(health.detail or "the engine is not ready")
        # Still a 200: a probe that fails would end the replicas that live, and their requests.
        return {"status": "degraded", "detail": health.detail} if health.detail else {"status": "ok"}
