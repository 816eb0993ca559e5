"""Who stands where, and how long anybody has to let others pass."""

from collections import Counter
from collections.abc import Iterable

import pytest

from managers.scheduler.overtaking import MAX_OVERTAKEN, MAX_OVERTAKEN_BY_URGENT
from managers.scheduler.queue_policy import MAX_MATCHED, MAX_SORTED, POLICIES
from managers.scheduler.request import Request
from managers.scheduler.waiting_queue import WaitingQueue
from mem_cache.prefix_cache import PrefixTrace
from tests.managers.scheduler.made_requests import request


class Queue(WaitingQueue):
    """`cached` says how much of whose prompt is cached."""

    def __init__(self, policy: str = "fcfs", seed: int = 0) -> None:
        super().__init__(policy, seed=seed)
        self.cached: Counter[int] = Counter()

    def trace(self, waiting: Request) -> PrefixTrace:
        return PrefixTrace(self.cached[waiting.arrival], ())

    def order(self) -> list[int]:
        return [waiting.arrival for waiting in self.in_order(self.trace)]

    def admit_first(self) -> int:
        first = next(iter(self.in_order(self.trace)))
        self.remove(first)
        self.note_admitted([first])
        return first.arrival

    def add_all(self, requests: Iterable[Request]) -> None:
        for made in requests:
            self.add(made)


def test_first_come_first_served() -> None:
    queue = Queue()
    queue.add_all(request(i) for i in (1, 2, 3))
    assert queue.order() == [1, 2, 3]


def test_retracted_requests_stand_at_the_head_by_arrival() -> None:
    queue = Queue()
    queue.add(request(9))
    queue.put_back(request(3, num_retractions=1))
    queue.put_back(request(2, num_retractions=1))
    assert queue.order() == [2, 3, 9]


def test_the_more_urgent_come_first_and_among_equals_the_retracted() -> None:
    queue = Queue()
    queue.add_all(
        [request(1, urgency=0), request(2, urgency=5), request(3, urgency=0), request(4, urgency=5)]
    )
    queue.put_back(request(5, urgency=0, num_retractions=1))
    assert queue.order() == [2, 4, 5, 1, 3]


@pytest.mark.parametrize(("policy", "longest"), [("lpm", MAX_MATCHED), ("dfs-weight", MAX_MATCHED)])
def test_a_queue_too_long_to_be_matched_is_served_by_arrival(policy: str, longest: int) -> None:
    queue = Queue(policy)
    queue.add_all(request(i) for i in range(longest))
    queue.cached[longest - 1] = 9
    assert queue.order()[0] == (longest - 1 if policy == "lpm" else 0)
    queue.add(request(longest))
    assert queue.order() == list(range(longest + 1))


def test_a_queue_too_long_to_be_sorted_is_served_by_arrival() -> None:
    queue = Queue("lof")
    queue.add_all(request(i, max_new_tokens=i) for i in range(MAX_SORTED))
    assert queue.order()[0] == MAX_SORTED - 1
    queue.add(request(MAX_SORTED))
    assert queue.order()[0] == 0


def test_random_is_the_same_for_the_same_seed_and_stays_while_requests_come_and_go() -> None:
    queue, same, other = Queue("random", seed=1), Queue("random", seed=1), Queue("random", seed=2)
    for one in (queue, same, other):
        one.add_all(request(i) for i in range(50))
    assert queue.order() == same.order() != other.order()
    assert queue.order() != list(range(50))
    before = queue.order()
    queue.remove(next(made for made in queue if made.arrival == before[3]))
    assert queue.order() == before[:3] + before[4:]


@pytest.mark.parametrize("policy", [name for name in POLICIES if name != "fcfs"])
def test_no_policy_lets_a_request_be_overtaken_for_ever(policy: str) -> None:
    queue = Queue(policy)
    queue.add(request(0, lot=1.0, max_new_tokens=0))
    next(iter(queue)).lot = 1.0
    for arrival in range(1, 100):
        queue.cached[arrival] = 5
        queue.add(request(arrival, max_new_tokens=100))
        if queue.admit_first() == 0:
            assert arrival <= MAX_OVERTAKEN + 1
            return
    raise AssertionError("still waiting")


def test_urgent_requests_overtake_often_but_not_for_ever() -> None:
    queue = Queue()
    queue.add(request(0, urgency=0))
    for arrival in range(1, 1000):
        queue.add(request(arrival, urgency=9))
        if queue.admit_first() == 0:
            assert arrival == MAX_OVERTAKEN_BY_URGENT + 1
            return
    raise AssertionError("still waiting")


def test_who_was_overtaken_too_often_may_not_be_evicted_and_stands_before_all() -> None:
    queue = Queue()
    patient = request(0, urgency=0)
    queue.add(patient)
    for arrival in range(1, MAX_OVERTAKEN_BY_URGENT + 1):
        queue.add(request(arrival, urgency=9))
        queue.admit_first()
    queue.add(request(999, urgency=9))
    assert queue.most_urgent() is patient
    last = queue.least_urgent()
    assert last is not None
    assert last.arrival == 999


def test_only_those_who_came_before_are_overtaken() -> None:
    queue = Queue()
    early, late = request(1), request(5)
    queue.add_all([early, late])
    queue.note_admitted([request(3), request(4)])
    queue.order()
    assert (early.num_overtaken, late.num_overtaken) == (2, 0)


def test_the_first_to_make_room_is_the_last_of_the_least_urgent_who_never_ran() -> None:
    queue = Queue()
    assert queue.least_urgent() is None
    queue.put_back(request(7, urgency=-5, num_retractions=1))
    assert queue.least_urgent() is None
    queue.add_all([request(1, urgency=3), request(2, urgency=1), request(3, urgency=1)])
    last = queue.least_urgent()
    assert last is not None
    assert last.arrival == 3


def test_uncached_tokens_are_counted_while_requests_come_and_go() -> None:
    queue = Queue()
    first, second = request(1, 10, num_expected_cached=4), request(2, 20)
    queue.add(first)
    queue.put_back(second)
    assert queue.num_uncached_tokens == 26
    queue.remove(first)
    queue.remove(second)
    assert queue.num_uncached_tokens == len(queue) == 0
