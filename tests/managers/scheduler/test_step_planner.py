"""Running requests against the memory: who progresses when there is no room for all."""

import numpy as np

from managers.scheduler.decision_digest import DecisionDigest
from managers.scheduler.decode_reserve import DecodeReserve
from managers.scheduler.finish import FinishRules
from managers.scheduler.request import Request, Stage
from managers.scheduler.request_memory import RequestMemory
from managers.scheduler.step_planner import StepPlanner
from managers.scheduler.waiting_queue import WaitingQueue
from mem_cache.build import KVMemory, build_kv_memory
from tests.managers.scheduler.world import greedy


class FullMemory:
    """Requests in prefill, by arrival, that hold the whole memory between them."""

    def __init__(self, *holdings: int) -> None:
        digest = DecisionDigest()
        self.capacity = sum(holdings)
        self.memory = RequestMemory(self._build, digest)
        self.waiting = WaitingQueue("fcfs")
        self.planner = StepPlanner(
            waiting=self.waiting,
            memory=self.memory,
            digest=digest,
            reserve=DecodeReserve(),
            chunk_size=8,
            max_running_requests=4,
        )
        for arrival, num_held in enumerate(holdings, start=1):
            self.planner.running.append(self._running(arrival, num_held))

    def _build(self) -> KVMemory:
        return build_kv_memory(
            capacity=self.capacity, page_size=1, use_radix_cache=True, num_rows=4, context_length=1000
        )

    def _running(self, arrival: int, num_held: int) -> Request:
        sampling = greedy(0)
        request = Request(
            id=arrival,
            arrival=arrival,
            prompt_ids=np.full(num_held + 20, arrival, np.int32),
            sampling=sampling,
            rules=FinishRules.of(sampling, 0, (), vocab_size=100),
            stream=False,
            stage=Stage.RUNNING,
        )
        self.memory.hold(request)
        self.memory.extend(request, num_held)
        request.num_computed = num_held
        return request


def test_the_oldest_gets_room_for_its_chunk_from_the_newest() -> None:
    world = FullMemory(30, 20, 20)
    plan = world.planner.plan()
    assert [request.id for request in plan.retracted] == [3]
    assert [(row.request.id, row.num_tokens) for row in plan.rows] == [(1, 8)]
    assert [request.id for request in world.waiting] == [3]


def test_a_retracted_request_leaves_its_prefix_in_the_cache() -> None:
    world = FullMemory(30, 20)
    [victim] = world.planner.plan().retracted
    assert victim.num_computed == 0
    assert world.memory.num_cached(victim) == 12  # all but what the oldest needed


def test_nobody_is_admitted_in_a_step_that_retracts() -> None:
    world = FullMemory(30, 20, 20)
    assert world.planner.plan().admitted == []


def test_a_lone_request_without_room_is_named() -> None:
    plan = FullMemory(30).planner.plan()
    assert plan.hopeless is not None
    assert (plan.hopeless.id, plan.rows) == (1, [])
