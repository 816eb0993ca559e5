"""The decisions, without a model: who joins, who is overtaken, who gives way."""

from dataclasses import replace

import numpy as np
import pytest

from managers.scheduler.decode_planner import choose_victim, split_running
from managers.scheduler.decode_reserve import DecodeReserve
from managers.scheduler.overtaking import MAX_OVERTAKEN
from managers.scheduler.prefill_planner import (
    LOOK_AHEAD,
    PrefillPlan,
    plan_admission,
    plan_continuing,
    prefill_budget,
)
from managers.scheduler.request import Request, Stage
from managers.scheduler.request_memory import RequestMemory
from tests.managers.scheduler.made_requests import memory, request


def running(in_memory: RequestMemory, arrival: int, num_tokens: int, max_new_tokens: int = 0) -> Request:
    made = request(arrival, num_tokens, max_new_tokens, stage=Stage.RUNNING)
    in_memory.hold(made)
    in_memory.extend(made, num_tokens)
    return made


def admit(
    waiting: list[Request], runs: list[Request], in_memory: RequestMemory, budget: int, places: int
) -> PrefillPlan:
    reserve = DecodeReserve(conservativeness=0.5 / 0.7)
    return plan_admission(waiting, runs, in_memory, reserve, budget=budget, places=places)


def ids(requests: list[Request]) -> list[int]:
    return [made.id for made in requests]


def test_prefill_gets_what_decode_leaves() -> None:
    assert prefill_budget(64, 10) == 54


def test_prefill_is_not_starved_by_decode() -> None:
    assert prefill_budget(64, 1000) == 16
    assert prefill_budget(1, 1000) == 1


def test_a_prompt_longer_than_the_budget_is_cut() -> None:
    plan = admit([request(1, 10), request(2, 10)], [], memory(), budget=15, places=8)
    assert [row.num_tokens for row in plan.rows] == [10, 5]


def test_nobody_joins_beyond_the_places() -> None:
    plan = admit([request(1), request(2), request(3)], [], memory(), budget=100, places=2)
    assert ids(plan.admitted) == [1, 2]


def test_a_request_waits_while_running_ones_may_need_the_room() -> None:
    room = memory(100)
    busy = running(room, 1, 50, max_new_tokens=61)  # will need 30 more
    plan = admit([request(2, 21)], [busy], room, budget=100, places=8)
    assert plan.rows == []
    assert plan.is_blocked
    plan = admit([request(3, 20)], [busy], room, budget=100, places=8)
    assert ids(plan.admitted) == [3]


def test_a_request_that_was_not_admitted_holds_nothing() -> None:
    room = memory(100)
    busy, waiting = running(room, 1, 90), request(2, 50)
    before = room.stats()
    admit([waiting], [busy], room, budget=100, places=8)
    assert waiting.holding is None
    assert room.stats() == before


def test_alone_a_request_is_admitted_whatever_it_may_generate() -> None:
    plan = admit([request(1, 90, max_new_tokens=10)], [], memory(100), budget=100, places=8)
    assert ids(plan.admitted) == [1]


def test_a_small_request_passes_a_large_one_that_does_not_fit() -> None:
    room = memory(100)
    plan = admit([request(2, 80), request(3, 20)], [running(room, 1, 50)], room, 100, 8)
    assert ids(plan.admitted) == [3]
    assert plan.is_blocked


def test_looking_past_large_requests_ends() -> None:
    room = memory(100)
    large = [request(2 + i, 80) for i in range(LOOK_AHEAD + 1)]
    plan = admit([*large, request(99, 1)], [running(room, 1, 50)], room, 100, 8)
    assert plan.admitted == []


@pytest.mark.parametrize("state", [{"num_overtaken": MAX_OVERTAKEN}, {"num_retractions": 1}])
def test_nobody_passes_a_request_that_waited_enough(state: dict[str, int]) -> None:
    room = memory(100)
    plan = admit([request(2, 80, **state), request(3, 20)], [running(room, 1, 50)], room, 100, 8)
    assert plan.admitted == []


def test_a_cached_prefix_counts_once_for_all_who_use_it() -> None:
    room = memory(100)
    first = running(room, 1, 80)
    first.num_computed = 80
    room.share(first)
    twin = replace(request(2, 81), prompt_ids=np.append(first.prompt_ids, np.int32(7)))
    plan = admit([twin], [first], room, budget=100, places=8)
    assert [(row.request.id, row.num_tokens) for row in plan.rows] == [(2, 1)]


def test_a_follower_waits_until_its_leaders_prompt_is_computed() -> None:
    leader = request(1)
    follower = request(2, leader=leader)
    assert ids(admit([leader, follower], [], memory(), 100, 8).admitted) == [1]
    leader.has_computed_prompt = True
    assert ids(admit([follower], [], memory(), 100, 8).admitted) == [2]


def test_a_follower_does_not_wait_for_a_leader_that_has_ended() -> None:
    leader = request(1, stage=Stage.FINISHED)
    assert ids(admit([request(2, leader=leader)], [], memory(), 100, 8).admitted) == [2]


def test_chunks_go_on_in_order_of_arrival() -> None:
    room = memory(100)
    first, second = request(1, 30), request(2, 30)
    room.hold(first)
    room.hold(second)
    rows = plan_continuing([first, second], 40, room)
    assert [(row.request.id, row.num_tokens) for row in rows] == [(1, 30), (2, 10)]


def test_a_chunk_is_cut_to_the_memory_there_is() -> None:
    room = memory(32, page_size=4)
    running(room, 1, 20)
    growing = request(2, 30)
    room.hold(growing)
    room.extend(growing, 2)  # half a page
    growing.num_computed = 2
    assert [row.num_tokens for row in plan_continuing([growing], 100, room)] == [10]


def test_the_victim_is_the_newest_of_those_with_the_fewest_tokens() -> None:
    some = [
        request(1, output_ids=[]),
        request(2, output_ids=[5, 5]),
        request(3, output_ids=[5]),
        request(4, output_ids=[5]),
    ]
    victim = choose_victim(some)
    assert victim is some[3]


def test_the_oldest_is_never_the_victim() -> None:
    victim = choose_victim([request(1, output_ids=[]), request(2, output_ids=[5, 5])])
    assert victim is not None
    assert victim.id == 2
    assert choose_victim([request(1)]) is None


def test_a_request_with_one_token_to_compute_decodes() -> None:
    decoding, prefilling = split_running([request(1, 5, num_computed=4), request(2, 5, num_computed=3)])
    assert (ids(decoding), ids(prefilling)) == ([1], [2])
