"""What makes a scheduler one of several replicas: its rank on what it says, and a count of what it was sent.

The scheduler itself knows nothing of the others.
"""

from typing import assert_never

import msgspec

from managers.messages import (
    DetokenizerInput,
    FlushCacheReply,
    GetStateReply,
    SchedulerInput,
    SchedulerLoad,
    Shutdown,
    TokenBatch,
    TokenizedRequest,
)
from managers.scheduler.event_loop import Inbox
from managers.scheduler.scheduler import Outbox


class ReplicaPort:
    """Inbox and outbox of rank 0 of replica `dp_rank`, around the real ones."""

    def __init__(self, dp_rank: int, inbox: Inbox, outbox: Outbox) -> None:
        self._dp_rank = dp_rank
        self._inbox = inbox
        self._outbox = outbox
        self._num_received = 0

    def receive(self, timeout_s: float) -> list[SchedulerInput]:
        """Everything that has arrived. It will be handled before anything is sent."""
        messages = self._inbox.receive(timeout_s)
        self._num_received += sum(isinstance(message, TokenizedRequest) for message in messages)
        return messages

    def send(self, message: DetokenizerInput) -> None:
        """Queue one message, signed."""
        match message:
            case SchedulerLoad():
                message = msgspec.structs.replace(
                    message, dp_rank=self._dp_rank, num_received=self._num_received
                )
            case FlushCacheReply() | GetStateReply():
                message = msgspec.structs.replace(message, dp_rank=self._dp_rank)
            case TokenBatch() | Shutdown():
                pass
            case _:
                assert_never(message)
        self._outbox.send(message)
