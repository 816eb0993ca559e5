"""Which waiting requests, and how many tokens of each, join the next step.

Decides only, except that it keeps hold of the cached prefix of whomever it admits: without the lock, making
room for one admitted request could evict the prefix that was counted on for another.

Admission looks past a request that does not fit now, at most `LOOK_AHEAD` such in one step, and never past one
that was overtaken too often (overtaking.py): small requests need not wait behind a large one, and the large
one's turn comes in bounded time.
Next on the request's path: managers/scheduler/request_memory.py
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from managers.scheduler.batch import Row
from managers.scheduler.decode_reserve import DecodeReserve
from managers.scheduler.overtaking import MAX_OVERTAKEN, may_be_overtaken
from managers.scheduler.request import Request
from managers.scheduler.request_memory import RequestMemory
from managers.scheduler.siblings import PrefixMakers

LOOK_AHEAD = 8
# Those who wait for another's prefix do not wait for memory, so more of them may be passed; but looking takes time.
MAX_SIBLINGS_PASSED = 64
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


def plan_continuing(prefilling: Sequence[Request], budget: int, memory: RequestMemory) -> list[Row]:
    """The next chunk of requests that were admitted before, in the order given, as far as budget and memory go."""
    rows: list[Row] = []
    num_free = memory.num_available
    for request in prefilling:
        num_tokens = min(request.num_uncomputed, budget, memory.num_fitting(request, num_free))
        if num_tokens > 0:
            rows.append(Row(request, num_tokens))
            budget -= num_tokens
            num_free -= memory.num_needed(request, num_tokens)
    return rows


def plan_admission(
    waiting: Iterable[Request],
    running: Sequence[Request],
    memory: RequestMemory,
    reserve: DecodeReserve,
    *,
    budget: int,
    places: int,
) -> PrefillPlan:
    """Who joins, and with how many tokens. Who runs already has the slots for this step.

    A request is admitted when its whole prompt and the probable part of its answer fit beside what the running ones
    will need; when nothing else runs, always, for it fits alone.
    """
    if places <= 0 or budget <= 0:
        return PrefillPlan()
    plan = PrefillPlan()
    makers = PrefixMakers(running, memory.page_size)
    num_reserved = sum(reserve.num_slots(request, memory) for request in running)
    num_passed_over = num_siblings = 0
    patience = MAX_OVERTAKEN  # how many more may be admitted before one who was passed over
    for request in waiting:
        if budget <= 0 or len(plan.admitted) >= places or patience <= 0:
            break
        if request.waits_for_leader:
            continue
        if may_be_overtaken(request) and makers.is_awaited(request):
            num_siblings += 1
            if num_siblings > MAX_SIBLINGS_PASSED:
                break
            continue
        memory.hold(request)
        num_wanted = reserve.num_slots(request, memory)
        is_alone = not running and not plan.admitted
        # A health check takes a slot for a step only: not worth a reserve.
        num_kept_free = 0 if request.is_probe else num_reserved
        if is_alone or num_wanted <= memory.num_available - num_kept_free:
            num_tokens = min(request.num_uncomputed, budget)
            plan.rows.append(Row(request, num_tokens))
            plan.admitted.append(request)
            makers.add(request)
            num_reserved += num_wanted
            budget -= num_tokens
            if num_passed_over:
                patience -= 1
            continue
        memory.let_go(request)
        num_passed_over += 1
        if num_passed_over > LOOK_AHEAD or not may_be_overtaken(request):
            break
        patience = min(patience, MAX_OVERTAKEN - request.num_overtaken)
    # A sibling's prefix may be there in the very next step, without anybody leaving.
    is_blocked = num_passed_over > 0 and num_siblings == 0
    return PrefillPlan(plan.rows, plan.admitted, is_blocked)
