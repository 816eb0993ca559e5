"""`ReasoningTokenCounter`: how many tokens of an answer were spent on reasoning."""

from collections.abc import Sequence

from srt.entrypoints.openai.released_tokens import TokenBytes
from srt.parsers.reasoning.format import ReasoningFormat


class ReasoningTokenCounter:
    """Counts the tokens of one answer up to its end marker, that included. A lookup a token, until then."""

    __slots__ = ("_begin", "_end", "_has_ended", "_seen", "_starts_inside", "_token_bytes", "num_tokens")

    def __init__(self, reasoning: ReasoningFormat, token_bytes: TokenBytes, *, starts_inside: bool) -> None:
        self._begin = reasoning.begin.encode()
        self._end = reasoning.end.encode()
        self._token_bytes = token_bytes
        self._starts_inside = starts_inside
        self._seen = b""  # as much of the text's end as may hold the beginning of a marker
        self._has_ended = False
        self.num_tokens = 0

    def add(self, token_ids: Sequence[int]) -> None:
        """More tokens of the answer."""
        for token_id in token_ids:
            if self._has_ended:
                return
            self.num_tokens += 1
            self._seen += self._token_bytes(token_id)
            if not self._starts_inside:
                self._look_for_begin()
            if self._starts_inside:
                self._has_ended = self._end in self._seen
                self._seen = self._seen[1 - len(self._end) :]

    def _look_for_begin(self) -> None:
        """The answer begins with the marker, or there is no reasoning."""
        text = self._seen.lstrip()
        if text.startswith(self._begin):
            self._starts_inside = True
        elif not self._begin.startswith(text):
            self._has_ended = True
            self.num_tokens = 0
