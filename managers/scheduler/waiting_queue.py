"""`WaitingQueue`: requests that hold no KV and wait for some.

Those that ran before and were retracted stand at its head, all by arrival.
Next on the request's path: managers/scheduler/prefill_planner.py
"""

from bisect import insort
from collections.abc import Callable, Iterable, Iterator, Sequence

from managers.messages.base import RequestId
from managers.scheduler.queue_policy import MAX_MATCHED, longest_prefix_first
from managers.scheduler.request import Request


class WaitingQueue:
    """Adding and removing take constant time, but for the few retracted requests."""

    def __init__(self, policy: str) -> None:
        self._policy = policy
        self._retracted: list[Request] = []  # by arrival
        self._fresh: dict[RequestId, Request] = {}  # a dict keeps the order of insertion

    def __len__(self) -> int:
        return len(self._retracted) + len(self._fresh)

    def __iter__(self) -> Iterator[Request]:
        yield from self._retracted
        yield from self._fresh.values()

    def add(self, request: Request) -> None:
        """A new request, behind all others."""
        self._fresh[request.id] = request

    def put_back(self, request: Request) -> None:
        """A retracted request, before all that never ran."""
        insort(self._retracted, request, key=lambda other: other.arrival)

    def remove(self, request: Request) -> None:
        """Admitted or aborted; must be here."""
        if self._fresh.pop(request.id, None) is None:
            self._retracted.remove(request)

    def in_order(self, num_cached: Callable[[Request], int]) -> Iterable[Request]:
        """Who should be admitted first; `num_cached` is asked only by a policy that needs it."""
        if self._policy == "lpm" and len(self) <= MAX_MATCHED:
            return longest_prefix_first(list(self), num_cached)
        return self

    def note_admitted(self, admitted: Sequence[Request]) -> None:
        """Count, for those who go on waiting, the later arrivals that were admitted before them."""
        for newcomer in admitted:
            for request in self._fresh.values():
                if request.arrival > newcomer.arrival:
                    break  # by arrival, so all further ones are later too
                request.num_overtaken += 1
