"""Which waiting requests, and how many tokens of each, join the next step.

Decides only, except that it keeps hold of the cached prefix of whomever it admits: without the lock, making
room for one admitted request could evict the prefix that was counted on for another.

Admission looks past a request that does not fit now, at most `LOOK_AHEAD` such in one step, and never past one
that was overtaken too often (queue_policy.py): small requests need not wait behind a large one, and the large
one's turn comes in bounded time.
Next on the request's path: managers/scheduler/request_memory.py
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from managers.scheduler.batch import Row
from managers.scheduler.queue_policy import may_be_overtaken
from managers.scheduler.request import Request
from managers.scheduler.request_memory import RequestMemory

LOOK_AHEAD = 8
# Most requests end before their limit: of what it may still generate, a request is taken to need half, and a
# limit beyond this many tokens is taken for no limit. An estimate: who turns out to need more may cause a retraction.
MAX_RESERVED_TOKENS = 4096
RESERVED_FRACTION = 2
# However many requests decode, prefill gets this part of the step: new requests must not starve.
LEAST_PREFILL_FRACTION = 4


@dataclass(frozen=True, slots=True)
class PrefillPlan:
    """What joins the decode rows. `admitted` are the requests, among those of `rows`, that waited so far.

    `is_blocked`: somebody waits for memory, and will do so at least until some request leaves.
    """

    rows: list[Row] = field(default_factory=list)
    admitted: list[Request] = field(default_factory=list)
    is_blocked: bool = False


def prefill_budget(chunk_size: int, num_decoding: int) -> int:
    """New tokens that a step may have beside its decode rows. At least one."""
    return max(chunk_size - num_decoding, chunk_size // LEAST_PREFILL_FRACTION, 1)


def decode_reserve(request: Request) -> int:
    """Tokens that `request` is taken to generate yet."""
    return min(request.num_tokens_left, MAX_RESERVED_TOKENS) // RESERVED_FRACTION


def plan_continuing(prefilling: Sequence[Request], budget: int, memory: RequestMemory) -> list[Row]:
    """The next chunk of requests that were admitted before, oldest first, as far as budget and memory go."""
    rows: list[Row] = []
    num_free = memory.num_available
    for request in prefilling:
        num_tokens = min(request.num_uncomputed, budget, memory.num_fitting(request, num_free))
        if num_tokens > 0:
            rows.append(Row(request, num_tokens))
            budget -= num_tokens
            num_free -= memory.num_needed(request, num_tokens)
    return rows


def num_reserved(running: Sequence[Request]) -> int:
    """Tokens of KV that running requests, their slots for this step already taken, will yet need."""
    return sum(decode_reserve(request) + _num_without_slots(request) for request in running)


def plan_admission(
    waiting: Iterable[Request], running: Sequence[Request], memory: RequestMemory, budget: int, places: int
) -> PrefillPlan:
    """Who joins, and with how many tokens. Who runs already has the slots for this step.

    A request is admitted when its whole prompt and a part of its answer fit beside what the running ones will
    need; when nothing else runs, always, for it fits alone.
    """
    plan = PrefillPlan()
    num_passed_over = 0
    reserved = num_reserved(running) if places > 0 else 0  # of free slots, for whoever was admitted before
    for request in waiting:
        if budget <= 0 or len(plan.admitted) >= places:
            break
        if request.waits_for_leader:
            continue
        memory.hold(request)
        num_wanted = memory.num_needed(request, request.num_uncomputed) + decode_reserve(request)
        is_alone = not running and not plan.admitted
        if is_alone or num_wanted <= memory.num_available - reserved:
            num_tokens = min(request.num_uncomputed, budget)
            plan.rows.append(Row(request, num_tokens))
            plan.admitted.append(request)
            reserved += num_wanted
            budget -= num_tokens
            continue
        memory.let_go(request)
        num_passed_over += 1
        if num_passed_over > LOOK_AHEAD or not may_be_overtaken(request):
            break
    return plan if num_passed_over == 0 else PrefillPlan(plan.rows, plan.admitted, is_blocked=True)


def _num_without_slots(request: Request) -> int:
    num_slots = request.holding.num_slots if request.holding is not None else 0
    return request.num_tokens - num_slots
