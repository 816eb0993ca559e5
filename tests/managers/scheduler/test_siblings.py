"""Who waits for another's prefix, and for how long."""

import numpy as np

from managers.scheduler.request import Request, Stage
from managers.scheduler.siblings import LEAST_SHARED, PrefixMakers, prefix_key
from tests.managers.scheduler.made_requests import request


def alike(arrival: int, num_shared: int, num_own: int = 5, namespace: tuple[str, ...] = ()) -> Request:
    own = np.full(num_own, 1000 + arrival, np.int32)
    made = request(arrival)
    made.prompt_ids = np.concatenate([np.arange(num_shared, dtype=np.int32), own])
    made.prefix_key = prefix_key(made.prompt_ids, namespace)
    made.namespace = namespace
    return made


def maker(num_shared: int = 50) -> Request:
    made = alike(1, num_shared)
    made.stage = Stage.RUNNING
    return made


def test_whoever_shares_enough_that_is_not_computed_waits() -> None:
    assert PrefixMakers([maker()], 1).is_awaited(alike(2, 50))


def test_a_short_common_prefix_is_not_worth_a_step() -> None:
    assert not PrefixMakers([maker()], 1).is_awaited(alike(2, LEAST_SHARED - 1, 40))


def test_only_whole_pages_are_shared() -> None:
    assert not PrefixMakers([maker(47)], 48).is_awaited(alike(2, 47))


def test_namespaces_do_not_wait_for_each_other() -> None:
    assert not PrefixMakers([maker()], 1).is_awaited(alike(2, 50, namespace=("other",)))


def test_what_is_computed_need_not_be_waited_for() -> None:
    running = maker()
    waiting = alike(2, 50)
    makers = PrefixMakers([running], 1)
    assert makers.is_awaited(waiting)
    running.num_computed = 49
    assert makers.is_awaited(waiting)  # nearly there
    running.num_computed = 50
    assert not makers.is_awaited(waiting)
    assert waiting.sibling is None


def test_who_was_retracted_or_ended_is_not_waited_for() -> None:
    for stage in (Stage.WAITING, Stage.FINISHED):
        running, waiting = maker(), alike(2, 50)
        assert PrefixMakers([running], 1).is_awaited(waiting)
        running.stage = stage
        assert not PrefixMakers([], 1).is_awaited(waiting)
