"""What a child process tells its parent at start: Ready, or Failed and why."""

from managers.messages.base import Message


class Ready(Message, frozen=True):
    """The process can work. `facts` are for the start-up summary and /server_info."""

    name: str
    facts: dict[str, int | float | str | bool | None] = {}


class Failed(Message, frozen=True):
    """The process cannot start: one sentence for the operator."""

    name: str
    message: str


LauncherInput = Ready | Failed
