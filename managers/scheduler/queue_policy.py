"""Order of the waiting queue, as pure functions.

Whatever the policy: who was retracted comes first, for its client has already seen half an answer. Ties
are broken by arrival. Nobody is overtaken for ever: whoever was, `MAX_OVERTAKEN` times, comes before all who
were not.
"""

from collections.abc import Callable, Sequence

from managers.scheduler.request import Request

# A request may be overtaken so often, by smaller ones or by such with a longer cached prefix, then no more.
MAX_OVERTAKEN = 16
# Matching a prefix costs time for every waiting request; beyond this many, arrival has to do.
MAX_MATCHED = 128


def may_be_overtaken(request: Request) -> bool:
    """Whether a later arrival may be admitted before this request."""
    return request.num_overtaken < MAX_OVERTAKEN and request.num_retractions == 0


def longest_prefix_first(waiting: Sequence[Request], num_cached: Callable[[Request], int]) -> list[Request]:
    """Who may not be overtaken first, in the order given; then who has the most tokens cached."""
    fixed = [request for request in waiting if not may_be_overtaken(request)]
    free = [request for request in waiting if may_be_overtaken(request)]
    return fixed + sorted(free, key=lambda request: (-num_cached(request), request.arrival))
