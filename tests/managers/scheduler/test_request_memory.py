"""What requests leave in the prefix cache, and what of it goes first."""

import pytest

from mem_cache.eviction_policy import EVICTION_POLICIES
from mem_cache.radix_cache import RadixCache
from tests.managers.scheduler.world import World, greedy

SYSTEM_PROMPT = "You are a helpful assistant. "  # 29 tokens
ANSWER = greedy(24, ignore_eos=True)


def cached_texts(world: World) -> list[str]:
    """The tokens of each node of the tree, parents first."""
    cache = world.scheduler._memory.books.cache
    assert isinstance(cache, RadixCache)
    return ["".join(map(chr, node.tokens.tolist())) for node in cache._tree.nodes()]


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


def test_prompt_and_answer_are_cached_apart_after_a_retraction_too() -> None:
    """Going on, the request computes its prompt and the beginning of its answer in one chunk."""
    world = World(capacity=64, page_size=4)
    oldest = world.add("x" * 8, greedy(56, ignore_eos=True))  # in the end it needs every page
    retracted = world.add("y" * 8, greedy(40, ignore_eos=True))
    while oldest not in world.heard or world.heard[oldest].finished is None:
        world.step()
    assert world.stats().num_retractions > 0
    assert "y" not in "".join(cached_texts(world))
    world.run()
    assert world.finish(retracted).cached_tokens == 0
    assert "y" * 8 in cached_texts(world)


def test_a_prompt_that_is_computed_twice_by_one_request_counts_as_used_once() -> None:
    world = World(capacity=80)
    world.add("a" * 10, greedy(50, ignore_eos=True))
    world.add("b" * 10, greedy(50, ignore_eos=True))
    world.run()
    assert world.stats().num_retractions > 0
    cache = world.scheduler._memory.books.cache
    assert isinstance(cache, RadixCache)
    assert {node.num_uses for node in cache._tree.nodes()} == {1}


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
    world = World(capacity=96, page_size=4)
    world.add("s" * 17, greedy(1))
    world.run()
    ids = [world.add("s" * 16 + letter * 8, greedy(50, ignore_eos=True)) for letter in "abc"]
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
