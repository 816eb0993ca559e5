"""Send an admin request to the scheduler of every replica and gather the replies, for a bounded time.

Every request has an id of its own, so a late reply to a caller who gave up is never taken for the next one's.
"""

import asyncio
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from managers.messages.control import (
    ControlReply,
    ControlRequest,
    FlushCache,
    FlushCacheReply,
    GetState,
    GetStateReply,
    Shutdown,
)
from srt.errors import ServerNotReady
from srt.util.patience import patience

REPLY_TIMEOUT_S = 10.0
# Between two tries to flush a cache that is still in use.
RETRY_INTERVAL_S = 0.05


@dataclass
class _Question:
    """One request, and the replies of replicas so far, by rank."""

    missing: set[int]
    answered: asyncio.Future[None]
    replies: dict[int, ControlReply] = field(default_factory=dict)

    def note_answer_if_complete(self) -> None:
        if not self.missing and not self.answered.done():
            self.answered.set_result(None)


class ControlClient:
    """Admin requests to all replicas. `send` reaches every one of them; `on_reply` takes what comes back.

    `live_ranks` are the replicas that will answer. `control_ids` are numbers that nobody else gives a request.
    """

    def __init__(
        self,
        send: Callable[[ControlRequest], None],
        live_ranks: Callable[[], Sequence[int]],
        *,
        reply_timeout_s: float = REPLY_TIMEOUT_S,
        control_ids: Iterator[int] | None = None,
    ) -> None:
        self._send = send
        self._live_ranks = live_ranks
        self._reply_timeout_s = reply_timeout_s
        self._control_ids = control_ids or itertools.count(1)
        self._waiting: dict[int, _Question] = {}

    async def flush_cache(self, *, timeout_s: float) -> str | None:
        """Forget all cached prefixes, trying for `timeout_s`. None, or why it was not done: the first reason."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        while True:
            replies = await self._ask(FlushCache(control_id=next(self._control_ids)))
            reasons = [r.reason for r in replies if isinstance(r, FlushCacheReply) and not r.done]
            if not reasons:
                return None
            if loop.time() >= deadline:
                return reasons[0]
            await asyncio.sleep(RETRY_INTERVAL_S)

    async def get_states(self) -> Sequence[Mapping[str, Any]]:
        """Facts and figures of each replica's scheduler, by rank."""
        replies = await self._ask(GetState(control_id=next(self._control_ids)))
        return [{"dp_rank": r.dp_rank, **r.state} for r in replies if isinstance(r, GetStateReply)]

    def shut_down(self) -> None:
        """Ask every process behind the socket to end. Nothing comes back."""
        self._send(Shutdown())

    def on_reply(self, reply: ControlReply) -> None:
        """Hand a reply to whoever waits for it, if anybody still does."""
        question = self._waiting.get(reply.control_id)
        if question is not None:
            question.replies[reply.dp_rank] = reply
            question.missing.discard(reply.dp_rank)
            question.note_answer_if_complete()

    def on_replica_lost(self, dp_rank: int) -> None:
        """Wait for this one no longer."""
        for question in self._waiting.values():
            question.missing.discard(dp_rank)
            question.note_answer_if_complete()

    def fail_all(self, error: Exception) -> None:
        """Nobody will answer any more."""
        for question in self._waiting.values():
            if not question.answered.done():
                question.answered.set_exception(error)

    async def _ask(self, request: FlushCache | GetState) -> list[ControlReply]:
        question = _Question(set(self._live_ranks()), asyncio.get_running_loop().create_future())
        self._waiting[request.control_id] = question
        self._send(request)
        try:
            async with patience(self._reply_timeout_s):
                await question.answered
            return [reply for _, reply in sorted(question.replies.items())]
        except TimeoutError:
            raise ServerNotReady(f"the scheduler did not answer within {self._reply_timeout_s:g} s") from None
        finally:
            del self._waiting[request.control_id]
