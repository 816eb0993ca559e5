"""Which replica gets a request: one small class a policy, chosen by name. Pure: no socket, no clock.

A policy is asked with the replicas that may be had, and told of everything that was sent, also of what it did not
choose. Among equals it takes turns.
"""

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from managers.messages.to_scheduler import TokenizedRequest

# Prefixes are remembered in blocks of so many tokens.
BLOCK_TOKENS = 16
_BLOCK_BYTES = 4 * BLOCK_TOKENS
# What is remembered of one replica at most: a million tokens, some ten megabytes.
MOST_BLOCKS = 65_536
# One request more on a replica costs its neighbours about as much time as so many tokens of prefill.
TOKENS_PER_REQUEST = 64
# However long a prefix is, for its sake a replica gets at most so many requests more than the least busy one. One
# that is passed over then gets the prefix too, so a prefix that everybody shares spreads by itself.
MOST_REQUESTS_AHEAD = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaLoad:
    """How busy a replica is: requests sent to it that have not ended, tokens that these hold or wait to compute.

    `capacity` is how many tokens its KV cache holds, 0 while nobody knows.
    """

    dp_rank: int
    num_requests: int
    num_tokens: int
    capacity: int


class DispatchPolicy(Protocol):
    """Who is next."""

    def choose(self, request: TokenizedRequest, replicas: Sequence[ReplicaLoad]) -> int:
        """The rank of one of `replicas`, of which there is at least one. Changes nothing."""
        ...

    def note_sent(self, request: TokenizedRequest, replica: ReplicaLoad) -> None:
        """`request` goes to `replica`, whoever decided so."""
        ...

    def forget_prefixes(self, dp_rank: int | None = None) -> None:
        """The caches of this replica, or of all, are empty."""
        ...


class _TakingTurns:
    """What every policy does among equals. Each replica's place is when it was last sent something."""

    def __init__(self) -> None:
        self._num_sent = 0
        self._last_sent: dict[int, int] = {}

    def note_sent(self, request: TokenizedRequest, replica: ReplicaLoad) -> None:
        """It goes to the end of the line."""
        self._num_sent += 1
        self._last_sent[replica.dp_rank] = self._num_sent

    def forget_prefixes(self, dp_rank: int | None = None) -> None:
        """Nothing is remembered of prefixes."""

    def _place(self, replica: ReplicaLoad) -> tuple[int, int]:
        return self._last_sent.get(replica.dp_rank, 0), replica.dp_rank


class RoundRobin(_TakingTurns):
    """Whoever has waited longest."""

    def choose(self, request: TokenizedRequest, replicas: Sequence[ReplicaLoad]) -> int:
        """The one whose last request is the oldest."""
        return min(replicas, key=self._place).dp_rank


class LeastRequests(_TakingTurns):
    """Whoever has the fewest requests."""

    def choose(self, request: TokenizedRequest, replicas: Sequence[ReplicaLoad]) -> int:
        """Among equals, the fewest tokens."""
        return min(replicas, key=lambda r: (r.num_requests, r.num_tokens, self._place(r))).dp_rank


class LeastTokens(_TakingTurns):
    """Whoever has the fewest tokens."""

    def choose(self, request: TokenizedRequest, replicas: Sequence[ReplicaLoad]) -> int:
        """Among equals, the fewest requests."""
        return min(replicas, key=lambda r: (r.num_tokens, r.num_requests, self._place(r))).dp_rank


class PrefixAware(_TakingTurns):
    """Whoever has probably computed most of the prompt already, unless it is much busier than another."""

    def __init__(self) -> None:
        super().__init__()
        self._seen: dict[int, SeenPrefixes] = {}

    def choose(self, request: TokenizedRequest, replicas: Sequence[ReplicaLoad]) -> int:
        """The cached tokens of a prompt count as requests that the replica has less than it has."""
        blocks = hash_blocks(request)

        def cost(replica: ReplicaLoad) -> tuple[float, int, tuple[int, int]]:
            seen = self._seen.get(replica.dp_rank)
            num_cached = 0 if seen is None else seen.num_cached(blocks)
            worth = min(num_cached / TOKENS_PER_REQUEST, MOST_REQUESTS_AHEAD)
            return replica.num_requests - worth, replica.num_tokens, self._place(replica)

        return min(replicas, key=cost).dp_rank

    def note_sent(self, request: TokenizedRequest, replica: ReplicaLoad) -> None:
        """The replica will have its prompt in the cache."""
        super().note_sent(request, replica)
        seen = self._seen.setdefault(replica.dp_rank, SeenPrefixes())
        seen.add(hash_blocks(request), capacity=replica.capacity)

    def forget_prefixes(self, dp_rank: int | None = None) -> None:
        """Nobody has seen anything."""
        if dp_rank is None:
            self._seen.clear()
        else:
            self._seen.pop(dp_rank, None)


class SeenPrefixes:
    """The prompt prefixes that one replica has probably in its cache: a trie, flat, each node named by its path.

    As many are kept as its KV cache has room for, the least recently used go first, as there; MOST_BLOCKS at most.
    """

    def __init__(self) -> None:
        self._blocks: OrderedDict[int, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._blocks)

    def num_cached(self, blocks: Sequence[int]) -> int:
        """How many tokens of such a prompt are there."""
        num_blocks = 0
        for block in blocks:
            if block not in self._blocks:
                break
            num_blocks += 1
        return num_blocks * BLOCK_TOKENS

    def add(self, blocks: Sequence[int], *, capacity: int) -> None:
        """Such a prompt is used now. `capacity`, in tokens, is 0 if nobody knows it."""
        # The end first: so that it is forgotten before what it continues, as the ends of a radix tree are.
        for block in reversed(blocks):
            self._blocks[block] = None
            self._blocks.move_to_end(block)
        most = min(capacity // BLOCK_TOKENS, MOST_BLOCKS) if capacity else MOST_BLOCKS
        while len(self._blocks) > most:
            self._blocks.popitem(last=False)


def hash_blocks(request: TokenizedRequest) -> list[int]:
    """A name for each prefix of the prompt that ends with a whole block, the shortest first."""
    prompt = memoryview(request.input_ids)
    name = hash(request.namespace)
    names = []
    for end in range(_BLOCK_BYTES, min(len(prompt), MOST_BLOCKS * _BLOCK_BYTES) + 1, _BLOCK_BYTES):
        name = hash((name, bytes(prompt[end - _BLOCK_BYTES : end])))
        names.append(name)
    return names


POLICIES: Mapping[str, Callable[[], DispatchPolicy]] = {
    "round_robin": RoundRobin,
    "least_requests": LeastRequests,
    "least_tokens": LeastTokens,
    "prefix_aware": PrefixAware,
}
