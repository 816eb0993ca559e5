"""What a front is told by the main process, and by the other fronts, if there are several."""

from managers.messages.base import Message
from managers.messages.to_controller import ReplicaLost


class AbortByLabel(Message, frozen=True):
    """A client wants every request with this `rid` to end; None: every request. It asked another front."""

    rid: str | None


class Drain(Message, frozen=True):
    """Take nothing new, let what runs finish for so long, then end it; say `Drained` when nothing is open."""

    timeout_s: float


class Hurry(Message, frozen=True):
    """Do not wait for what runs any longer."""


class EngineLost(Message, frozen=True):
    """A process behind the front is gone: nothing can be served any more, for which `reason` is one sentence."""

    reason: str


class Leave(Message, frozen=True):
    """Close connections, those with an answer in the making after `grace_s`, and end."""

    grace_s: float


FrontOrder = AbortByLabel | Drain | Hurry | EngineLost | Leave | ReplicaLost
