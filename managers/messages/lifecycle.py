"""What a child process tells its parent: Ready, or Failed and why; and a front, when it is told to stop, Drained."""

from managers.messages.base import Message


class Ready(Message, frozen=True):
    """The process can work. `facts` are for the start-up summary and /server_info."""

    name: str
    facts: dict[str, int | float | str | bool | None] = {}


class Failed(Message, frozen=True):
    """The process cannot start: one sentence for the operator."""

    name: str
    message: str


class Drained(Message, frozen=True):
    """No request is open any more, and none will be."""

    name: str


LauncherInput = Ready | Failed | Drained
