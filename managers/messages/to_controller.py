"""What the data-parallel controller's socket carries: all that a scheduler's does, and what the front tells it."""

from managers.messages.base import Message, RequestId
from managers.messages.control import SchedulerLoad
from managers.messages.to_scheduler import SchedulerInput


class RequestsEnded(Message, frozen=True):
    """The front has had the last word on these: nobody needs to know any more which replica had them."""

    request_ids: list[RequestId]


class ReplicaLost(Message, frozen=True):
    """A process of this replica has died, for which `reason` is one sentence: it gets nothing any more."""

    dp_rank: int
    reason: str


# What only a controller is told. The front passes the loads on: it gets them anyway.
ControllerNote = RequestsEnded | ReplicaLost | SchedulerLoad
ControllerInput = SchedulerInput | ControllerNote
