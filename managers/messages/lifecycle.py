"""What a child process tells its parent: Ready, or Failed and why; and a front, when it is told to stop, Drained.

A front, also the one in the parent itself, says which child is Wanted.
"""

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


class Wanted(Message, frozen=True):
    """Somebody needs the child of this name, which is only started when it is needed. It may run already."""

    name: str


LauncherInput = Ready | Failed | Drained | Wanted
