"""`Markers`: find the first of several fixed texts, and how much of a text's end might be the beginning of one."""

import re
from collections.abc import Sequence

NEVER = "(?!)"


class Markers:
    """Made once, used for every piece of every answer. No marker is empty or the beginning of another."""

    __slots__ = ("_beginning", "_longest_beginning", "_whole")

    def __init__(self, markers: Sequence[str]) -> None:
        self._whole = re.compile("|".join(map(re.escape, markers)))
        self._beginning = re.compile(
            "|".join(_beginnings(marker) for marker in markers if len(marker) > 1) or NEVER
        )
        self._longest_beginning = max(map(len, markers)) - 1

    def find(self, text: str, position: int) -> re.Match[str] | None:
        """The first whole marker from `position` on."""
        return self._whole.search(text, position)

    def beginning(self, text: str, position: int) -> int:
        """Where the longest end of the text starts that a marker may begin with; the text's length if none does.

        Only for a text without a whole marker.
        """
        first = max(position, len(text) - self._longest_beginning)
        found = self._beginning.search(text, first)
        return len(text) if found is None else found.start()


def _beginnings(marker: str) -> str:
    """A pattern for every proper beginning of a marker, at the end of a text."""
    others = marker[1:-1]
    pattern = ""
    for character in reversed(others):
        pattern = f"(?:{re.escape(character)}{pattern})?"
    return f"{re.escape(marker[0])}{pattern}\\Z"
