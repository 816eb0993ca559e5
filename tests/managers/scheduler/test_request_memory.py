"""What requests leave in the prefix cache, and what of it goes first."""

import numpy as np
import pytest

from managers.messages import FlushCache, FlushCacheReply
from managers.scheduler.decision_digest import DecisionDigest
from managers.scheduler.finish import FinishRules
from managers.scheduler.invariants import find_violations
from managers.scheduler.request import Request
from managers.scheduler.request_memory import RequestMemory
from mem_cache.build import build_kv_memory
from mem_cache.eviction_policy import EVICTION_POLICIES
from mem_cache.radix_cache import RadixCache
from tests.managers.scheduler.world import World, greedy

SYSTEM_PROMPT = "You are a helpful assistant. "  # 29 tokens
ANSWER = greedy(24, ignore_eos=True)


@pytest.mark.parametrize("policy", EVICTION_POLICIES)
@pytest.mark.parametrize("page_size", [1, 16])
def test_a_shared_system_prompt_survives_while_answers_go(policy: str, page_size: int) -> None:
    world = World(capacity=160, page_size=page_size, eviction_policy=policy)
    cached: list[int] = []
    for question in "abcdefghijkl":
        request_id = world.add(SYSTEM_PROMPT + question * 8, ANSWER)
        world.run()
        cached.append(world.finish(request_id).cached_tokens)
    num_whole = len(SYSTEM_PROMPT) // page_size * page_size
    assert cached == [0] + [num_whole] * 11
    assert sum(len(SYSTEM_PROMPT) + 8 + 24 for _ in cached) > 3 * 160, "nothing had to go"


@pytest.mark.parametrize("policy", EVICTION_POLICIES)
def test_an_answer_goes_before_its_prompt(policy: str) -> None:
    world = World(capacity=64, eviction_policy=policy)
    world.add("p" * 20, ANSWER)
    world.run()
    world.add("q" * 10, greedy(10, ignore_eos=True))
    world.run()
    again = world.add("p" * 20, greedy(1))
    world.run()
    assert world.finish(again).cached_tokens == 19


def test_prompt_and_answer_are_cached_apart_even_if_computed_in_one_go() -> None:
    """So it is after a retraction, when the request's own prefix is gone."""
    memory, request = memory_with_request(prompt_len=8, num_output=20)
    memory.hold(request)
    memory.extend(request, 28)
    request.num_computed = 28
    memory.share(request)
    cache = memory.books.cache
    assert isinstance(cache, RadixCache)
    assert [len(node) for node in cache._tree.nodes()] == [8, 20]


def test_a_prefix_that_one_request_computes_twice_counts_as_used_once() -> None:
    memory, request = memory_with_request(prompt_len=8, num_output=20)
    cache = memory.books.cache
    assert isinstance(cache, RadixCache)
    for num_evicted in (24, 5, 0):
        memory.hold(request)
        memory.extend(request, 28 - request.num_computed)
        request.num_computed = 28
        memory.share(request)
        memory.let_go(request)
        memory.books.allocator.free(cache.evict(num_evicted))
    assert {node.num_uses for node in cache._tree.nodes()} == {1}
    assert find_violations(memory, ()) == []


def memory_with_request(prompt_len: int, num_output: int) -> tuple[RequestMemory, Request]:
    """A memory of 64 slots, and a request that holds nothing of it yet."""
    memory = RequestMemory(
        lambda: build_kv_memory(
            capacity=64, page_size=1, use_radix_cache=True, num_rows=1, context_length=64
        ),
        DecisionDigest(),
    )
    request = Request(
        id=1,
        arrival=1,
        prompt_ids=np.arange(prompt_len, dtype=np.int32),
        sampling=greedy(),
        rules=FinishRules.of(greedy(), 40, (), 1000),
        stream=False,
    )
    for token_id in range(100, 100 + num_output):
        request.append(token_id)
    return memory, request


def test_a_flood_of_new_prompts_does_not_wash_away_what_was_used_twice() -> None:
    def num_cached_after_flood(policy: str) -> int:
        world = World(capacity=128, eviction_policy=policy)
        for _ in range(2):
            world.add("the common one", greedy(1))
            world.run()
        for letter in "abcdefgh":
            world.add(letter * 40, greedy(1))
            world.run()
        again = world.add("the common one", greedy(1))
        world.run()
        return world.finish(again).cached_tokens

    assert num_cached_after_flood("lru") == 0
    assert num_cached_after_flood("slru") == num_cached_after_flood("lfu") == len("the common one") - 1


def test_waiting_for_memory_is_no_use_of_the_prefix_it_waits_with() -> None:
    world = World(capacity=64, policy="lpm", eviction_policy="lfu", max_running_requests=1)
    world.add("p" * 10, greedy(1))
    world.run()
    world.add("x" * 5, greedy(40, ignore_eos=True))
    world.step()
    waiting = world.add("p" * 10, greedy(1))
    for _ in range(10):
        world.step()
    cache = world.scheduler._memory.books.cache
    assert isinstance(cache, RadixCache)
    uses = {chr(node.tokens[0]): node.num_uses for node in cache._tree.nodes()}
    assert uses["p"] == 1
    world.run()
    assert world.finish(waiting).cached_tokens == 9


@pytest.mark.parametrize("page_size", [1, 16, 64])
@pytest.mark.parametrize("prompt_len", [1, 15, 16, 17, 63, 64, 65, 129, 200])
def test_of_a_repeated_prompt_all_whole_pages_but_the_last_tokens_are_cached(
    page_size: int, prompt_len: int
) -> None:
    world = World(capacity=1024, page_size=page_size)
    prompt = [97 + position % 3 for position in range(prompt_len)]
    world.add(prompt, greedy(1))
    world.run()
    again = world.add(prompt, greedy(1))
    world.run()
    assert world.finish(again).cached_tokens == (prompt_len - 1) // page_size * page_size


def test_retracted_requests_report_what_was_cached_when_they_first_ran() -> None:
    world = World(capacity=148, page_size=4)
    world.add("s" * 17, greedy(1))
    world.run()
    sampling = greedy(50, ignore_eos=True, stop=("never",))
    ids = [world.add("s" * 16 + letter * 8, sampling) for letter in "abc"]
    world.run()
    assert world.stats().num_retractions > 0
    assert [world.finish(request_id).cached_tokens for request_id in ids] == [16, 16, 16]
    opened = [world.heard[request_id].opened for request_id in ids]
    assert [message.cached_tokens for message in opened if message is not None] == [16, 16, 16]


def test_names_that_run_together_are_different_namespaces() -> None:
    world = World()
    world.add("hello world", namespace=("", "a", "bc"))
    world.run()
    ids = [
        world.add("hello world", namespace=namespace)
        for namespace in [("", "ab", "c"), ("a", "", "bc"), ("a", "bc"), ("abc",), ()]
    ]
    same = world.add("hello world", namespace=("", "a", "bc"))
    world.run()
    assert [world.finish(request_id).cached_tokens for request_id in ids] == [0, 0, 0, 0, 0]
    assert world.finish(same).cached_tokens == 10


def test_a_flush_is_refused_while_somebody_waits_and_nobody_runs() -> None:
    """Who waits has looked its prefix up, and may be admitted in this very turn."""
    world = World()
    world.add("hello", greedy(1))
    world.run()
    world.add("hello")
    world.send(FlushCache(control_id=1))
    world.step()
    (reply,) = world.replies
    assert isinstance(reply, FlushCacheReply)
    assert not reply.done
    assert "0 requests are running and 1 waiting" in reply.reason
    world.run()
    assert world.finish(2).cached_tokens == 4


def test_a_flush_that_comes_with_the_abort_of_the_last_waiting_request_is_done() -> None:
    world = World(max_running_requests=1)
    world.add("running", greedy(40, ignore_eos=True))
    world.step()
    waiting = world.add("waiting")
    world.step()
    world.abort(1, waiting)
    world.send(FlushCache(control_id=1))
    world.step()
    assert world.replies == [FlushCacheReply(control_id=1, done=True)]
    assert world.stats().memory.num_free == 256
