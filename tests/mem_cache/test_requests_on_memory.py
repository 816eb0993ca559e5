"""Requests come, grow, share, finish and are aborted on a small memory: the books balance after every step."""

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import assume, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from mem_cache.build import KVMemory, build_kv_memory
from mem_cache.eviction_policy import EVICTION_POLICIES
from tests.mem_cache.request_world import RequestWorld

NAMESPACES: list[tuple[str, ...]] = [(), ("a", "bc"), ("ab", "c"), ("abc",)]
CONTEXT_LENGTH = 200


def small_memory(
    page_size: int, use_radix_cache: bool = True, capacity: int = 160, eviction_policy: str = "lru"
) -> KVMemory:
    return build_kv_memory(
        capacity=capacity,
        page_size=page_size,
        use_radix_cache=use_radix_cache,
        num_rows=4,
        context_length=CONTEXT_LENGTH,
        eviction_policy=eviction_policy,
    )


class RequestsOnMemory(RuleBasedStateMachine):
    """The token alphabet has two letters, so that prompts share prefixes of every length."""

    @initialize(
        page_size=st.sampled_from([1, 4, 16]),
        use_radix_cache=st.sampled_from([True, True, True, False]),
        eviction_policy=st.sampled_from(list(EVICTION_POLICIES)),
    )
    def begin(self, page_size: int, use_radix_cache: bool, eviction_policy: str) -> None:
        memory = small_memory(page_size, use_radix_cache, eviction_policy=eviction_policy)
        self.world = RequestWorld(memory=memory)

    @rule(
        head=st.integers(0, 60),
        tail=st.lists(st.integers(0, 1), min_size=1, max_size=24),
        namespace=st.sampled_from(NAMESPACES),
    )
    def start(self, head: int, tail: list[int], namespace: tuple[str, ...]) -> None:
        self.world.start([0] * head + tail, namespace)

    @precondition(lambda self: self.world.running)
    @rule(data=st.data(), num_tokens=st.integers(1, 40))
    def prefill(self, data: st.DataObject, num_tokens: int) -> None:
        request = data.draw(st.sampled_from(self.world.running))
        num_new = min(num_tokens, len(request.tokens) - request.num_computed)
        assume(num_new > 0)
        if not self.world.compute(request, num_new):
            self.world.drop(request)

    @precondition(lambda self: self.world.running)
    @rule(data=st.data(), token=st.integers(0, 1))
    def decode(self, data: st.DataObject, token: int) -> None:
        request = data.draw(st.sampled_from(self.world.running))
        assume(request.num_computed == len(request.tokens) < CONTEXT_LENGTH)
        request.tokens.append(token)
        if not self.world.compute(request, 1):
            self.world.drop(request)

    @precondition(lambda self: self.world.running)
    @rule(data=st.data())
    def keep(self, data: st.DataObject) -> None:
        self.world.keep(data.draw(st.sampled_from(self.world.running)))

    @precondition(lambda self: self.world.running)
    @rule(data=st.data(), priority=st.integers(-2, 2))
    def count(self, data: st.DataObject, priority: int) -> None:
        request = data.draw(st.sampled_from(self.world.running))
        self.world.memory.cache.count_use(
            request.node, num_tokens=request.num_owned, num_counted=0, priority=priority
        )

    @precondition(lambda self: self.world.running)
    @rule(data=st.data())
    def finish(self, data: st.DataObject) -> None:
        self.world.finish(data.draw(st.sampled_from(self.world.running)))

    @precondition(lambda self: self.world.running)
    @rule(data=st.data())
    def abort(self, data: st.DataObject) -> None:
        self.world.drop(data.draw(st.sampled_from(self.world.running)))

    @rule(num_tokens=st.integers(1, 50))
    def evict_ahead(self, num_tokens: int) -> None:
        before = self.world.memory.cache.stats()
        self.world.evict(num_tokens)
        num_evicted = before.num_evictable - self.world.memory.cache.stats().num_evictable
        assert num_evicted >= min(num_tokens, before.num_evictable)

    @precondition(lambda self: self.world.memory.cache.stats().num_protected == 0)
    @rule()
    def flush(self) -> None:
        self.world.memory.allocator.free(self.world.memory.cache.reset())
        self.world.cached.clear()
        assert self.world.memory.cache.stats().num_nodes == 0

    @invariant()
    def books_balance(self) -> None:
        if hasattr(self, "world"):
            self.world.check()

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        for request in list(self.world.running):
            self.world.finish(request)
        self.world.check()
        assert self.world.memory.cache.stats().num_protected == 0
        assert self.world.memory.table.stats().num_free == self.world.memory.table.num_rows


TestRequestsOnMemory = RequestsOnMemory.TestCase
TestRequestsOnMemory.settings = settings(
    max_examples=120, stateful_step_count=40, deadline=None, derandomize=True, database=None
)


def random_run(seed: int, page_size: int, num_steps: int = 400) -> list[list[int]]:
    """A seeded storm of requests; returns every slot that was chosen on the way."""
    rng = random.Random(seed)
    policy = sorted(EVICTION_POLICIES)[seed % len(EVICTION_POLICIES)]
    world = RequestWorld(memory=small_memory(page_size, eviction_policy=policy))
    for _ in range(num_steps):
        if not world.running or rng.random() < 0.2:
            tokens = [0] * rng.randrange(60) + [rng.randrange(2) for _ in range(rng.randrange(1, 24))]
            world.start(tokens, rng.choice(NAMESPACES))
            continue
        request = rng.choice(world.running)
        step = rng.choice(["compute", "compute", "compute", "keep", "finish", "abort"])
        if step == "compute":
            if request.num_computed == len(request.tokens):
                request.tokens.append(rng.randrange(2))
            num_new = rng.randrange(1, len(request.tokens) - request.num_computed + 1)
            if not world.compute(request, num_new):
                world.drop(request)
        elif step == "keep":
            world.keep(request)
        elif step == "finish":
            world.finish(request)
        else:
            world.drop(request)
    world.check()
    return world.decisions


@pytest.mark.parametrize("page_size", [1, 4, 16])
def test_the_same_calls_choose_the_same_slots_whatever_the_hash_seed(page_size: int) -> None:
    program = (
        "from tests.mem_cache.test_requests_on_memory import random_run\n"
        f"for seed in range(4): print(random_run(seed, {page_size}))"
    )
    root = Path(__file__).parents[2]
    runs = [
        subprocess.run(
            [sys.executable, "-c", program],
            env=os.environ | {"PYTHONHASHSEED": hash_seed},
            cwd=root,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    ]
    assert runs[0] == runs[1]
    assert len(runs[0]) > 1000
