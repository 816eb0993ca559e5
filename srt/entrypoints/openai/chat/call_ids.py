"""`CallIds`: the names of an answer's calls, by which the messages with their results refer to them."""

import uuid


def new_call_id(prefix: str = "call_") -> str:
    """One that nobody else has."""
    return f"{prefix}{uuid.uuid4().hex[:24]}"


class CallIds:
    """Of one answer. A model that names its calls itself is heeded, unless it gives two the same name."""

    def __init__(self, prefix: str = "call_") -> None:
        self._prefix = prefix
        self._taken: set[str] = set()

    def next(self, given: str | None) -> str:
        """For a call that the model named `given`, or not at all."""
        if given is None or given in self._taken:
            given = new_call_id(self._prefix)
        self._taken.add(given)
        return given
