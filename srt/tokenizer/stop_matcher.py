"""`StopMatcher`: find stop strings in text that arrives in pieces. Linear in the text, whatever the stops.

The scheduler asks `push` whether a stop string is complete; the detokenizer asks `num_held_back` how much of the text
might be the start of one and must not be sent yet. Where the pieces are cut changes no answer.
"""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StopMatch:
    """A stop string found: characters `start` to `end` of all text pushed so far."""

    stop: str
    start: int
    end: int


class StopMatcher:
    """Looks for several stop strings at once. None of them is empty.

    The match that ends first wins: generation would have stopped there. Of several that end together, the longest.
    """

    __slots__ = ("_num_seen", "_trackers")

    def __init__(self, stops: Sequence[str]) -> None:
        longest_first = sorted(dict.fromkeys(stops), key=len, reverse=True)
        self._trackers = [_PrefixTracker(stop) for stop in longest_first]
        self._num_seen = 0

    def push(self, text: str) -> StopMatch | None:
        """Take the next piece; return the first match that ends in it. All of the piece counts as seen, so pushing
        may go on behind a match that does not count (min_new_tokens)."""
        found: StopMatch | None = None
        for tracker in self._trackers:
            num_chars = tracker.push(text)
            # Strictly smaller: of those that end together the first tried, which is the longest, stays.
            if num_chars is not None and (found is None or self._num_seen + num_chars < found.end):
                end = self._num_seen + num_chars
                found = StopMatch(tracker.stop, end - len(tracker.stop), end)
        self._num_seen += len(text)
        return found

    @property
    def num_held_back(self) -> int:
        """Length of the longest end of the text that is the beginning, but not the whole, of a stop string."""
        return max((tracker.num_matched for tracker in self._trackers), default=0)


class _PrefixTracker:
    """Knuth, Morris and Pratt's automaton of one stop string; its table grows as far as the text has matched."""

    __slots__ = ("_borders", "num_matched", "stop")

    def __init__(self, stop: str) -> None:
        self.stop = stop
        self.num_matched = 0  # characters at the end of the text that begin the stop, fewer than all
        self._borders = [
            0,
            0,
        ]  # of the first k characters: the longest proper beginning that is also their end

    def push(self, text: str) -> int | None:
        """Follow the text; return where in it the first whole occurrence ends, None if none does."""
        stop, matched, end = self.stop, self.num_matched, None
        position = 0
        while position < len(text):
            if matched == 0:
                position = text.find(stop[0], position)
                if position < 0:
                    break
            character = text[position]
            while matched and stop[matched] != character:
                matched = self._border(matched)
            if stop[matched] == character:
                matched += 1
            position += 1
            if matched == len(stop):
                end = position if end is None else end
                matched = self._border(matched)
        self.num_matched = matched
        return end

    def _border(self, length: int) -> int:
        borders, stop = self._borders, self.stop
        while len(borders) <= length:
            character = stop[len(borders) - 1]
            border = borders[-1]
            while border and stop[border] != character:
                border = borders[border]
            borders.append(border + 1 if stop[border] == character else 0)
        return borders[length]
