"""`Overtaking`: how often a waiting request was overtaken, known without touching those who wait.

Whoever arrived earlier was overtaken at least as often as whoever arrived later, so the one who waits longest
is always the next whose patience ends.
"""

from bisect import bisect_right, insort

from managers.scheduler.request import Request

# So often may later arrivals of the same priority be admitted before a request: smaller ones, or such that the
# policy prefers. One step may admit several; so the bound is this and what one step admits.
MAX_OVERTAKEN = 16
# So often may more urgent ones.
MAX_OVERTAKEN_BY_URGENT = 256
# So often may a request be preempted; afterwards it counts as the most urgent.
MAX_PREEMPTED = 3


def may_be_overtaken(request: Request) -> bool:
    """Whether a later arrival of its priority may be admitted before this request."""
    return request.num_overtaken < MAX_OVERTAKEN and request.num_retractions == 0 and not request.is_aged


class Overtaking:
    """Keeps the arrivals of those who were admitted, as far as they are later than the oldest who waits."""

    def __init__(self) -> None:
        self._admitted: list[int] = []  # sorted

    def note_admitted(self, arrival: int, oldest_waiting: int) -> None:
        """Somebody was admitted; the oldest who goes on waiting arrived as number `oldest_waiting`."""
        del self._admitted[: bisect_right(self._admitted, oldest_waiting)]
        if arrival > oldest_waiting:
            insort(self._admitted, arrival)

    def count(self, request: Request) -> int:
        """Later arrivals that were admitted before this waiting request."""
        return len(self._admitted) - bisect_right(self._admitted, request.arrival)
