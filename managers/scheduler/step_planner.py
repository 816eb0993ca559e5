"""`StepPlanner`: the rows of the next step, with slots for every new token.

Decode rows always run; prefill gets what is left of the step. When memory runs short it is first taken from the
cache, then from running requests (decode_planner.py), and nobody is admitted in that step. Before that, less
urgent requests may have to give way to a more urgent one that waits (preemption.py).
"""

from bisect import insort
from collections.abc import Iterable
from dataclasses import dataclass, field

from managers.scheduler.batch import Row
from managers.scheduler.decision_digest import Decision, DecisionDigest
from managers.scheduler.decode_planner import choose_victim, place_in_line, split_running
from managers.scheduler.decode_reserve import DecodeReserve
from managers.scheduler.overtaking import MAX_PREEMPTED
from managers.scheduler.preemption import choose_preempted
from managers.scheduler.prefill_planner import PrefillPlan, plan_admission, plan_continuing, prefill_budget
from managers.scheduler.request import Request, Stage
from managers.scheduler.request_memory import RequestMemory
from managers.scheduler.waiting_queue import WaitingQueue

# While somebody waits for memory and nobody leaves, there is little hope; looking costs time in every step.
BLOCKED_TURNS = 8


@dataclass(slots=True)
class StepPlan:
    """What a turn runs. `hopeless` could not be given memory although nothing else runs: our bug."""

    rows: list[Row] = field(default_factory=list)
    admitted: list[Request] = field(default_factory=list)
    retracted: list[Request] = field(default_factory=list)  # for want of memory
    preempted: list[Request] = field(default_factory=list)  # for a more urgent one
    hopeless: Request | None = None


class StepPlanner:
    """Moves requests between the queue and the running set; `running` is by arrival.

    `preemption_threshold` None: nobody who runs gives way to one who waits.
    """

    def __init__(
        self,
        *,
        waiting: WaitingQueue,
        memory: RequestMemory,
        digest: DecisionDigest,
        reserve: DecodeReserve,
        chunk_size: int,
        max_running_requests: int,
        preemption_threshold: int | None = None,
    ) -> None:
        self.running: list[Request] = []
        self.max_running_requests = max_running_requests
        self._waiting = waiting
        self._memory = memory
        self._digest = digest
        self._reserve = reserve
        self._chunk_size = chunk_size
        self._preemption_threshold = preemption_threshold
        self._num_turns_blocked = 0

    def somebody_left(self) -> None:
        """There may be room again."""
        self._num_turns_blocked = 0

    def plan(self) -> StepPlan:
        """Choose the rows, take their slots."""
        plan = StepPlan()
        if not self.running:
            self._reserve.note_idle()
        self._preempt(plan)
        decoding, prefilling = self._make_room(plan)
        if plan.hopeless is not None:
            return plan
        self._memory.extend_by_one(decoding)
        plan.rows += [Row(request, 1) for request in decoding]
        budget = prefill_budget(self._chunk_size, len(decoding))
        prefilling.sort(key=place_in_line)
        budget -= self._add_rows(plan, plan_continuing(prefilling, budget, self._memory))
        if plan.retracted:
            self._reserve.note_retracted(self.running)
            return plan
        if decoding:
            self._reserve.note_decoded()
        self._admit(plan, budget)
        return plan

    def _make_room(self, plan: StepPlan) -> tuple[list[Request], list[Request]]:
        """Retract until those who are left can go on; they, split into decode and prefill."""
        while True:
            decoding, prefilling = split_running(self.running)
            if self._shortage(decoding, prefilling) <= 0:
                return decoding, prefilling
            victim = choose_victim(self.running)
            if victim is None:
                plan.hopeless = self.running[0]
                return decoding, prefilling
            self._retract(victim)
            plan.retracted.append(victim)

    def _shortage(self, decoding: list[Request], prefilling: list[Request]) -> int:
        """Slots missing for all decode rows, and for a chunk of the first in line if it is in prefill."""
        num_needed = self._memory.num_needed_for_one_each(decoding)
        if prefilling:
            first = min(self.running, key=place_in_line)
            if first.num_uncomputed > 1:
                num_tokens = min(first.num_uncomputed, prefill_budget(self._chunk_size, len(decoding)))
                num_needed += self._memory.num_needed(first, num_tokens)
        return num_needed - self._memory.num_available

    def _preempt(self, plan: StepPlan) -> None:
        """Let less urgent requests make room for the most urgent one that waits."""
        if self._preemption_threshold is None or not self.running:
            return
        candidate = self._waiting.most_urgent()
        if candidate is None or candidate.waits_for_leader or candidate.is_probe:
            return
        if candidate.urgency - self._preemption_threshold <= min(
            request.standing for request in self.running
        ):
            return
        reserve, memory = self._reserve, self._memory
        num_wanted = reserve.num_slots(candidate, memory) - self._memory.trace(candidate).num_tokens
        num_reserved = sum(reserve.num_slots(request, memory) for request in self.running)
        chosen = choose_preempted(
            candidate,
            self.running,
            threshold=self._preemption_threshold,
            num_places_missing=1 - (self.max_running_requests - len(self.running)),
            num_slots_missing=num_wanted + num_reserved - memory.num_available,
            num_freed=lambda request: _num_held(request) + reserve.num_slots(request, memory),
        )
        for request in chosen:
            request.num_preempted += 1
            request.is_aged |= request.num_preempted >= MAX_PREEMPTED
            self._retract(request)
            plan.preempted.append(request)

    def _retract(self, victim: Request) -> None:
        self._digest.record(Decision.RETRACT, (victim.id,))
        # What it has computed stays cached for as long as the room allows; its output stays in any case.
        self._memory.share(victim)
        self._memory.let_go(victim)
        self.running.remove(victim)
        victim.stage = Stage.WAITING
        victim.num_retractions += 1
        self._waiting.put_back(victim)
        self.somebody_left()

    def _admit(self, plan: StepPlan, budget: int) -> None:
        if not len(self._waiting):
            return
        self._admit_probe(plan)
        places = self.max_running_requests - len(self.running)
        if places <= 0 or budget <= 0 or self._is_still_blocked():
            return
        waiting = self._waiting.in_order(self._memory.trace)
        found = self._admit_some(plan, waiting, budget=budget, places=places)
        self._num_turns_blocked = 1 if found.is_blocked else 0

    def _admit_probe(self, plan: StepPlan) -> None:
        """A health check has a place and a token of its own in every step, however full it is."""
        first = self._waiting.most_urgent()
        if first is None or not first.is_probe or any(request.is_probe for request in self.running):
            return
        self._admit_some(plan, [first], budget=1, places=1)

    def _admit_some(
        self, plan: StepPlan, waiting: Iterable[Request], *, budget: int, places: int
    ) -> PrefillPlan:
        found = plan_admission(
            waiting, self.running, self._memory, self._reserve, budget=budget, places=places
        )
        for request in found.admitted:
            self._waiting.remove(request)
            request.stage = Stage.RUNNING
            request.sibling = None
            insort(self.running, request, key=lambda other: other.arrival)
            if request.num_cached_tokens is None:
                request.num_cached_tokens = request.num_computed
        self._waiting.note_admitted(found.admitted)
        self._digest.record(Decision.ADMIT, [request.id for request in found.admitted])
        plan.admitted.extend(found.admitted)
        self._add_rows(plan, found.rows)
        return found

    def _is_still_blocked(self) -> bool:
        if self._num_turns_blocked == 0 or not self.running:
            return False
        self._num_turns_blocked = (self._num_turns_blocked + 1) % BLOCKED_TURNS
        return self._num_turns_blocked != 0

    def _add_rows(self, plan: StepPlan, rows: list[Row]) -> int:
        for request, num_tokens in rows:
            self._memory.extend(request, num_tokens)
        plan.rows.extend(rows)
        return sum(row.num_tokens for row in rows)


def _num_held(request: Request) -> int:
    return request.holding.num_slots if request.holding is not None else 0
