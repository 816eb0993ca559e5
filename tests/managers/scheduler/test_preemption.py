"""Who gives way to a more urgent request."""

from managers.scheduler.preemption import choose_preempted
from managers.scheduler.priorities import LEAST_URGENT, PriorityRules
from managers.scheduler.request import Request
from tests.managers.scheduler.made_requests import request

RUNNING = [request(1, urgency=0), request(2, urgency=5), request(3, urgency=0), request(4, urgency=20)]


def preempted(
    urgency: int, *, places: int = 0, slots: int = 0, running: list[Request] = RUNNING
) -> list[int]:
    chosen = choose_preempted(
        request(9, urgency=urgency),
        running,
        threshold=10,
        num_places_missing=places,
        num_slots_missing=slots,
        num_freed=lambda _: 10,
    )
    return [made.arrival for made in chosen]


def test_nobody_gives_way_without_need() -> None:
    assert preempted(100) == []


def test_for_a_place_the_newest_of_the_least_urgent_gives_way() -> None:
    assert preempted(11, places=1) == [3]


def test_the_difference_must_be_more_than_the_threshold() -> None:
    assert preempted(10, places=1) == []


def test_for_memory_as_many_give_way_as_it_takes_the_less_urgent_first() -> None:
    assert preempted(16, slots=30) == [3, 1, 2]


def test_nobody_gives_way_in_vain() -> None:
    assert preempted(16, slots=31) == []


def test_who_was_preempted_too_often_gives_way_no_more() -> None:
    assert preempted(100, places=1, running=[request(1, urgency=0, is_aged=True)]) == []


def test_higher_is_more_urgent_unless_the_flag_says_otherwise() -> None:
    assert PriorityRules(is_enabled=True).urgency(3) > PriorityRules(is_enabled=True).urgency(2)
    inverted = PriorityRules(is_enabled=True, low_values_first=True)
    assert inverted.urgency(3) < inverted.urgency(2)


def test_who_names_no_priority_comes_last_or_has_the_default() -> None:
    for low_values_first in (False, True):
        rules = PriorityRules(is_enabled=True, low_values_first=low_values_first)
        assert rules.urgency(None) == LEAST_URGENT < min(rules.urgency(-(2**31)), rules.urgency(2**31 - 1))
    assert PriorityRules(is_enabled=True, default_priority=4, low_values_first=True).urgency(None) == -4


def test_without_priority_scheduling_all_are_equal() -> None:
    assert PriorityRules().urgency(5) == PriorityRules().urgency(None) == 0
    assert not PriorityRules().refuses(5)


def test_to_name_a_priority_can_be_refused() -> None:
    rules = PriorityRules(refuses_when_disabled=True)
    assert rules.refuses(0)
    assert not rules.refuses(None)
    assert not PriorityRules(refuses_when_disabled=True, is_enabled=True).refuses(5)
