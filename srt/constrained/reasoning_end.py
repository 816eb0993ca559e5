"""`ReasoningEnd`: watches an answer, token by token, for the text behind which its grammar begins."""

from collections.abc import Callable


class ReasoningEnd:
    """Looks for `marker` in the text that the tokens make, however they are cut."""

    def __init__(self, marker: str, token_text: Callable[[int], bytes]) -> None:
        self._marker = marker.encode()
        self._token_text = token_text
        self._tail = b""

    def push(self, token_id: int) -> bytes | None:
        """Take the next token. If it completes the marker: what of it comes behind that; else None."""
        text = self._tail + self._token_text(token_id)
        before, found, behind = text.partition(self._marker)
        if found:
            return behind
        self._tail = before[-(len(self._marker) - 1) :] if len(self._marker) > 1 else b""
        return None
