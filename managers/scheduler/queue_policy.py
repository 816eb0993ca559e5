"""Orders of those who wait, as pure functions: given by arrival, returned in the order in which to admit them.

Ties are broken by arrival. Who stands before all others whatever the policy is the queue's business
(waiting_queue.py): whoever was retracted, or overtaken too often.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from managers.scheduler.request import Request
from mem_cache.prefix_cache import PrefixTrace

# Looking up a prefix costs time for every waiting request, and so does sorting, in every step that admits somebody;
# when more wait, arrival has to do.
MAX_MATCHED = 128
MAX_SORTED = 1024

Trace = Callable[[Request], PrefixTrace]


def longest_prefix_first(waiting: Sequence[Request], trace: Trace) -> list[Request]:
    """Who has the most tokens cached comes first."""
    return sorted(waiting, key=lambda request: -trace(request).num_tokens)


def heaviest_branch_first(waiting: Sequence[Request], trace: Trace) -> list[Request]:
    """Depth first through the tree of cached prefixes, into the branch for which the most requests wait.

    So those with a common prefix follow each other, the larger groups first. Who has nothing cached comes last.
    """
    paths = {request.id: trace(request).nodes for request in waiting}
    weights = Counter(node for path in paths.values() for node in path)

    def place(request: Request) -> tuple[bool, list[tuple[int, int]]]:
        path = paths[request.id]
        return not path, [(-weights[node], node) for node in path]

    return sorted(waiting, key=place)


def longest_output_first(waiting: Sequence[Request], trace: Trace) -> list[Request]:
    """Who may generate most comes first: the long answers, begun early, do not end alone."""
    return sorted(waiting, key=lambda request: -request.num_tokens_left)


def by_lot(waiting: Sequence[Request], trace: Trace) -> list[Request]:
    """In the order of the numbers that the queue drew for them when they came."""
    return sorted(waiting, key=lambda request: request.lot)


@dataclass(frozen=True, slots=True)
class QueuePolicy:
    """`order` None: by arrival. So it is too when more than `max_waiting` wait."""

    order: Callable[[Sequence[Request], Trace], list[Request]] | None = None
    max_waiting: int = 0


POLICIES = {
    "fcfs": QueuePolicy(),
    "lpm": QueuePolicy(longest_prefix_first, MAX_MATCHED),
    "dfs-weight": QueuePolicy(heaviest_branch_first, MAX_MATCHED),
    "lof": QueuePolicy(longest_output_first, MAX_SORTED),
    "random": QueuePolicy(by_lot, MAX_SORTED),
}
