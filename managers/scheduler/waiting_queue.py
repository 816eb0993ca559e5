"""`WaitingQueue`: requests that hold no KV and wait for some.

The more urgent come first; among equals those who may not be overtaken, who ran before and were retracted or
were overtaken too often; then the others, in the order of the policy. Without priorities all are equals.
Next on the request's path: managers/scheduler/prefill_planner.py
"""

import random
from bisect import bisect_left, insort
from collections import OrderedDict
from collections.abc import Iterator, Sequence

from managers.messages.base import RequestId
from managers.scheduler.overtaking import MAX_OVERTAKEN, MAX_OVERTAKEN_BY_URGENT, Overtaking
from managers.scheduler.queue_policy import POLICIES, QueuePolicy, Trace
from managers.scheduler.request import Request


class _Line:
    """Requests of one standing. `head` may not be overtaken; `fresh` is by arrival."""

    def __init__(self) -> None:
        self.head: list[Request] = []
        # A plain dict takes ever longer to find its first entry once many before it were removed.
        self.fresh: OrderedDict[RequestId, Request] = OrderedDict()
        self.overtaking = Overtaking()

    def __len__(self) -> int:
        return len(self.head) + len(self.fresh)

    def add_to_head(self, request: Request) -> None:
        insort(self.head, request, key=lambda other: (other.num_retractions == 0, other.arrival))

    def in_order(self, policy: QueuePolicy, trace: Trace) -> Iterator[Request]:
        self._age()
        yield from list(self.head)
        if policy.order is None or len(self.fresh) > policy.max_waiting:
            ordered = iter(self.fresh.values())
        else:
            ordered = iter(policy.order(list(self.fresh.values()), trace))
        for request in ordered:
            request.num_overtaken = self.overtaking.count(request)
            yield request

    def _age(self) -> None:
        while self.fresh:
            oldest = next(iter(self.fresh.values()))
            oldest.num_overtaken = self.overtaking.count(oldest)
            if oldest.num_overtaken < MAX_OVERTAKEN:
                return
            del self.fresh[oldest.id]
            self.add_to_head(oldest)


class WaitingQueue:
    """Adding, removing and finding the first few take a time that does not depend on how many wait.

    `seed` is for the policy `random`; the same on every rank. `num_uncached_tokens` sums up what those who wait
    will probably have to compute.
    """

    def __init__(self, policy: str, *, seed: int = 0) -> None:
        self._policy = POLICIES[policy]
        self._lots = random.Random(seed)
        self._lines: dict[int, _Line] = {}  # by standing
        self._standings: list[int] = []  # sorted; those of the lines
        self._fresh: OrderedDict[RequestId, Request] = OrderedDict()  # all who never ran, by arrival
        self._retracted: list[Request] = []  # all others, by arrival
        self._overtaking = Overtaking()
        self.num_uncached_tokens = 0

    def __len__(self) -> int:
        return len(self._fresh) + len(self._retracted)

    def __iter__(self) -> Iterator[Request]:
        yield from self._retracted
        yield from self._fresh.values()

    def add(self, request: Request) -> None:
        """A new request, behind all others of its standing."""
        self.num_uncached_tokens += request.num_tokens - request.num_expected_cached
        request.lot = self._lots.random()
        self._fresh[request.id] = request
        self._line(request.standing).fresh[request.id] = request

    def put_back(self, request: Request) -> None:
        """A retracted request, before all of its standing that never ran."""
        self.num_uncached_tokens += request.num_tokens - request.num_expected_cached
        insort(self._retracted, request, key=lambda other: other.arrival)
        self._line(request.standing).add_to_head(request)

    def remove(self, request: Request) -> None:
        """Admitted, or ended; must be here."""
        self.num_uncached_tokens -= request.num_tokens - request.num_expected_cached
        if self._fresh.pop(request.id, None) is None:
            self._retracted.remove(request)
        self._leave_line(request)

    def in_order(self, trace: Trace) -> Iterator[Request]:
        """Who should be admitted first. Sets `num_overtaken`. Remove nobody before you have seen enough."""
        self._age()
        for standing in reversed(self._standings):
            yield from self._lines[standing].in_order(self._policy, trace)

    def note_admitted(self, admitted: Sequence[Request]) -> None:
        """These were removed because they were admitted."""
        oldest = self._oldest()
        for request in admitted:
            if oldest is not None:
                self._overtaking.note_admitted(request.arrival, oldest.arrival)
            line = self._lines.get(request.standing)
            if line is not None and line.fresh:
                first = next(iter(line.fresh.values()))
                line.overtaking.note_admitted(request.arrival, first.arrival)

    def most_urgent(self) -> Request | None:
        """The first of the most urgent, whatever the policy; None when nobody waits."""
        self._age()
        if not self._standings:
            return None
        line = self._lines[self._standings[-1]]
        return line.head[0] if line.head else next(iter(line.fresh.values()))

    def least_urgent(self) -> Request | None:
        """The last of the least urgent, among those who have not run and may still be overtaken."""
        for standing in self._standings:
            fresh = self._lines[standing].fresh
            if fresh:
                return next(reversed(fresh.values()))
        return None

    def _age(self) -> None:
        """Whoever was overtaken too often by the more urgent stands before them from now on."""
        oldest = self._oldest()
        if oldest is None or oldest.is_aged or self._overtaking.count(oldest) < MAX_OVERTAKEN_BY_URGENT:
            return
        self._leave_line(oldest)
        oldest.is_aged = True
        self._line(oldest.standing).add_to_head(oldest)

    def _oldest(self) -> Request | None:
        fresh = next(iter(self._fresh.values()), None)
        retracted = self._retracted[0] if self._retracted else None
        if fresh is None or retracted is None:
            return fresh or retracted
        return min(fresh, retracted, key=lambda request: request.arrival)

    def _line(self, standing: int) -> _Line:
        line = self._lines.get(standing)
        if line is None:
            line = self._lines[standing] = _Line()
            insort(self._standings, standing)
        return line

    def _leave_line(self, request: Request) -> None:
        line = self._lines[request.standing]
        if line.fresh.pop(request.id, None) is None:
            line.head.remove(request)
        if not len(line):
            del self._lines[request.standing]
            del self._standings[bisect_left(self._standings, request.standing)]
