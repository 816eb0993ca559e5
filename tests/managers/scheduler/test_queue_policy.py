"""The orders, as functions."""

from managers.scheduler.queue_policy import (
    by_lot,
    heaviest_branch_first,
    longest_output_first,
    longest_prefix_first,
)
from managers.scheduler.request import Request
from mem_cache.prefix_cache import PrefixTrace
from tests.managers.scheduler.made_requests import request


def no_trace(_: Request) -> PrefixTrace:
    raise AssertionError("this policy does not ask what is cached")


def arrivals(requests: list[Request]) -> list[int]:
    return [made.arrival for made in requests]


def test_lpm_takes_the_longest_cached_prefix_first_and_then_the_earliest() -> None:
    cached = {1: 0, 2: 5, 3: 9, 4: 5}
    order = longest_prefix_first(
        [request(i) for i in cached], lambda made: PrefixTrace(cached[made.arrival], ())
    )
    assert arrivals(order) == [3, 2, 4, 1]


def test_dfs_weight_goes_into_the_branch_with_the_most_requests_and_keeps_its_requests_together() -> None:
    nodes = {1: (7,), 2: (8, 9), 3: (), 4: (8, 6), 5: (8, 9), 6: (7,), 7: (8,)}
    order = heaviest_branch_first(
        [request(i) for i in nodes], lambda made: PrefixTrace(1, nodes[made.arrival])
    )
    assert arrivals(order) == [7, 2, 5, 4, 1, 6, 3]


def test_lof_takes_the_longest_answer_first() -> None:
    waiting = [request(1, max_new_tokens=5), request(2, max_new_tokens=9), request(3, max_new_tokens=9)]
    assert arrivals(longest_output_first(waiting, no_trace)) == [2, 3, 1]


def test_random_goes_by_lot() -> None:
    waiting = [request(1, lot=0.7), request(2, lot=0.1), request(3, lot=0.4)]
    assert arrivals(by_lot(waiting, no_trace)) == [2, 3, 1]
