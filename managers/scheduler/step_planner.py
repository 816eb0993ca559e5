"""`StepPlanner`: the rows of the next step, with slots for every new token.

Decode rows always run; prefill gets what is left of the step. When memory runs short it is first taken from the
cache, then from running requests (decode_planner.py), and nobody is admitted in that step.
"""

from bisect import insort
from dataclasses import dataclass, field

from managers.scheduler.batch import Row
from managers.scheduler.decision_digest import Decision, DecisionDigest
from managers.scheduler.decode_planner import choose_victim, split_running
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
    retracted: list[Request] = field(default_factory=list)
    hopeless: Request | None = None


class StepPlanner:
    """Moves requests between the queue and the running set; `running` is by arrival."""

    def __init__(
        self,
        *,
        waiting: WaitingQueue,
        memory: RequestMemory,
        digest: DecisionDigest,
        chunk_size: int,
        max_running_requests: int,
    ) -> None:
        self.running: list[Request] = []
        self.max_running_requests = max_running_requests
        self._waiting = waiting
        self._memory = memory
        self._digest = digest
        self._chunk_size = chunk_size
        self._num_turns_blocked = 0

    def somebody_left(self) -> None:
        """There may be room again."""
        self._num_turns_blocked = 0

    def plan(self) -> StepPlan:
        """Choose the rows, take their slots."""
        plan = StepPlan()
        self._make_room(plan)
        if plan.hopeless is not None:
            return plan
        decoding, prefilling = split_running(self.running)
        self._memory.extend_by_one(decoding)
        plan.rows.extend(Row(request, 1) for request in decoding)
        budget = prefill_budget(self._chunk_size, len(decoding))
        budget -= self._add_rows(plan, plan_continuing(prefilling, budget, self._memory))
        if not plan.retracted:
            self._admit(plan, budget)
        return plan

    def _make_room(self, plan: StepPlan) -> None:
        while self._shortage() > 0:
            victim = choose_victim(self.running)
            if victim is None:
                plan.hopeless = self.running[0]
                return
            self._retract(victim)
            plan.retracted.append(victim)

    def _shortage(self) -> int:
        """Slots missing for all decode rows, and for a chunk of the oldest request if it is in prefill."""
        if not self.running:
            return 0
        decoding, prefilling = split_running(self.running)
        num_needed = sum(self._memory.num_needed(request, 1) for request in decoding)
        oldest = self.running[0]
        if prefilling and prefilling[0] is oldest:
            num_tokens = min(oldest.num_uncomputed, prefill_budget(self._chunk_size, len(decoding)))
            num_needed += self._memory.num_needed(oldest, num_tokens)
        return num_needed - self._memory.num_available

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
        places = self.max_running_requests - len(self.running)
        if not len(self._waiting) or places <= 0 or budget <= 0 or self._is_still_blocked():
            return
        found = self._plan_admission(budget, places)
        self._num_turns_blocked = 1 if found.is_blocked else 0
        for request in found.admitted:
            self._waiting.remove(request)
            request.stage = Stage.RUNNING
            insort(self.running, request, key=lambda other: other.arrival)
            if request.num_cached_tokens is None:
                request.num_cached_tokens = request.num_computed
        self._waiting.note_admitted(found.admitted)
        self._digest.record(Decision.ADMIT, [request.id for request in found.admitted])
        plan.admitted.extend(found.admitted)
        self._add_rows(plan, found.rows)

    def _plan_admission(self, budget: int, places: int) -> PrefillPlan:
        in_order = self._waiting.in_order(self._memory.num_cached)
        return plan_admission(in_order, self.running, self._memory, budget, places)

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
