"""Who gets a request: shared evenly, kept where its prefix is, and never at the price of a replica that idles."""

import pytest

from managers.dispatch_policy import (
    BLOCK_TOKENS,
    MOST_BLOCKS,
    MOST_REQUESTS_AHEAD,
    POLICIES,
    TOKENS_PER_REQUEST,
    DispatchPolicy,
    LeastRequests,
    LeastTokens,
    PrefixAware,
    ReplicaLoad,
    RoundRobin,
    SeenPrefixes,
    hash_blocks,
)
from managers.messages import TokenizedRequest, pack_token_ids
from srt.sampling.params import SamplingParams


def request(token_ids: range | list[int], namespace: tuple[str, ...] = ()) -> TokenizedRequest:
    return TokenizedRequest(
        request_id=1,
        input_ids=pack_token_ids(list(token_ids)),
        sampling=SamplingParams(),
        stream=False,
        namespace=namespace,
    )


def replica(dp_rank: int, num_requests: int = 0, num_tokens: int = 0, capacity: int = 0) -> ReplicaLoad:
    return ReplicaLoad(dp_rank=dp_rank, num_requests=num_requests, num_tokens=num_tokens, capacity=capacity)


def send(policy: DispatchPolicy, asked: TokenizedRequest, replicas: list[ReplicaLoad]) -> int:
    """Choose and send, as the controller does."""
    chosen = policy.choose(asked, replicas)
    policy.note_sent(asked, next(r for r in replicas if r.dp_rank == chosen))
    return chosen


@pytest.mark.parametrize("name", POLICIES)
def test_equals_take_turns(name: str) -> None:
    policy = POLICIES[name]()
    asked = [request([number] * 40) for number in range(9)]
    chosen = [send(policy, a, [replica(0), replica(1), replica(2)]) for a in asked]
    assert [chosen.count(rank) for rank in range(3)] == [3, 3, 3]


@pytest.mark.parametrize("name", POLICIES)
def test_whoever_cannot_be_had_is_not_chosen(name: str) -> None:
    policy = POLICIES[name]()
    chosen = [send(policy, request([number] * 40), [replica(0), replica(2)]) for number in range(4)]
    assert sorted(chosen) == [0, 0, 2, 2]


def test_round_robin_counts_what_was_sent_on_request_too() -> None:
    policy = RoundRobin()
    policy.note_sent(request([1]), replica(0))
    assert policy.choose(request([1]), [replica(0, 0), replica(1, 99)]) == 1


def test_least_requests_looks_at_requests_then_at_tokens() -> None:
    policy = LeastRequests()
    assert policy.choose(request([1]), [replica(0, 3, 10), replica(1, 2, 500)]) == 1
    assert policy.choose(request([1]), [replica(0, 2, 501), replica(1, 2, 500)]) == 1


def test_least_tokens_looks_at_tokens_then_at_requests() -> None:
    policy = LeastTokens()
    assert policy.choose(request([1]), [replica(0, 3, 10), replica(1, 2, 500)]) == 0
    assert policy.choose(request([1]), [replica(0, 3, 10), replica(1, 2, 10)]) == 1


def test_a_prompt_goes_where_its_beginning_is() -> None:
    policy = PrefixAware()
    system = list(range(200))
    first = send(policy, request([*system, 7]), [replica(0), replica(1)])
    others = [send(policy, request([*system, 1000 + i]), [replica(0), replica(1)]) for i in range(6)]
    assert others == [first] * 6


def test_groups_of_prompts_are_shared_out_and_stay_where_they_are() -> None:
    policy = PrefixAware()
    groups = [list(range(1000 * i, 1000 * i + 300)) for i in range(8)]
    homes = [send(policy, request(group), [replica(0), replica(1)]) for group in groups]
    assert [homes.count(0), homes.count(1)] == [4, 4]
    again = [send(policy, request([*group, 5, 6]), [replica(0), replica(1)]) for group in groups]
    assert again == homes


def test_a_prefix_is_worth_only_so_much_waiting() -> None:
    policy = PrefixAware()
    asked = request(range(4 * TOKENS_PER_REQUEST))
    policy.note_sent(asked, replica(0))
    assert policy.choose(asked, [replica(0, 3), replica(1, 0)]) == 0
    assert policy.choose(asked, [replica(0, 5), replica(1, 0)]) == 1


def test_however_long_a_prefix_is_the_others_do_not_idle_for_it() -> None:
    policy = PrefixAware()
    asked = request(range(100 * MOST_REQUESTS_AHEAD * TOKENS_PER_REQUEST // 50))
    policy.note_sent(asked, replica(0))
    assert policy.choose(asked, [replica(0, MOST_REQUESTS_AHEAD + 1), replica(1, 0)]) == 1


def test_a_prefix_that_everybody_shares_spreads() -> None:
    policy = PrefixAware()
    num_requests = [0, 0, 0, 0]
    for number in range(200):
        asked = request([*range(160), number])
        chosen = send(policy, asked, [replica(rank, n) for rank, n in enumerate(num_requests)])
        num_requests[chosen] += 1
    assert max(num_requests) - min(num_requests) <= 1 + 160 // TOKENS_PER_REQUEST


def test_prefixes_of_different_namespaces_are_different() -> None:
    policy = PrefixAware()
    policy.note_sent(request(range(100), ("a", "")), replica(0))
    policy.note_sent(request([5]), replica(1))
    assert policy.choose(request(range(100), ("a", "")), [replica(0), replica(1)]) == 0
    policy.note_sent(request([5]), replica(0))
    assert policy.choose(request(range(100), ("b", "")), [replica(0), replica(1)]) == 1


def test_what_is_flushed_is_forgotten() -> None:
    policy = PrefixAware()
    policy.note_sent(request([1]), replica(1))
    policy.note_sent(request(range(100)), replica(0))
    policy.forget_prefixes()
    assert policy.choose(request(range(100)), [replica(0), replica(1)]) == 1


def test_a_replica_forgets_what_its_cache_has_no_room_for_the_oldest_first() -> None:
    seen = SeenPrefixes()
    old, new = hash_blocks(request(range(64))), hash_blocks(request(range(1000, 1064)))
    seen.add(old, capacity=96)
    seen.add(new, capacity=96)
    assert (seen.num_cached(new), seen.num_cached(old)) == (64, 32)


def test_what_is_used_again_is_kept() -> None:
    seen = SeenPrefixes()
    first, second, third = (hash_blocks(request(range(start, start + 32))) for start in (0, 100, 200))
    for blocks in (first, second, first, third):
        seen.add(blocks, capacity=64)
    assert [seen.num_cached(blocks) for blocks in (first, second, third)] == [32, 0, 32]


def test_memory_is_bounded_however_much_is_sent() -> None:
    seen = SeenPrefixes()
    for start in range(0, 4 * MOST_BLOCKS * BLOCK_TOKENS, MOST_BLOCKS * BLOCK_TOKENS // 2):
        seen.add(hash_blocks(request(range(start, start + MOST_BLOCKS * BLOCK_TOKENS // 2))), capacity=0)
    assert len(seen) <= MOST_BLOCKS


def test_a_prompt_without_a_whole_block_has_no_prefix() -> None:
    assert hash_blocks(request(range(BLOCK_TOKENS - 1))) == []
    assert len(hash_blocks(request(range(BLOCK_TOKENS)))) == 1
