"""`DecodeReserve`: how much KV requests will probably still need for their answers.

Most answers end before their limit. So of what a request may still generate, a share counts, which shrinks while
that goes well and jumps when memory ran out after all. Which answer ends at its limit is known for those that
nothing can end earlier (`ignore_eos`, no stop strings, no stop tokens): they count in full.
"""

import math
from collections.abc import Iterable

from managers.scheduler.request import Request
from managers.scheduler.request_memory import RequestMemory

# The share at the start, times --schedule-conservativeness; the part of it that it never falls below; and the decode
# steps that it takes to get there. SGLang's figures.
FIRST_SHARE = 0.7
LEAST_PART = 0.14
STEPS_TO_LEAST = 600
# After a retraction, those who stay are taken to generate the share of their limits that they have reached so
# far, and this many tokens more.
TOKENS_AHEAD = 20
# A limit beyond this is taken for no limit: nobody waits until so much is free.
MAX_RESERVED_TOKENS = 4096


class DecodeReserve:
    """The share, by what has happened so far."""

    def __init__(self, conservativeness: float = 1.0) -> None:
        self._first = min(FIRST_SHARE * conservativeness, 1.0)
        self._least = self._first * LEAST_PART
        self.share = self._first

    def note_decoded(self) -> None:
        """A step went well."""
        decay = (self._first - self._least) / STEPS_TO_LEAST
        self.share = max(self.share - decay, self._least)

    def note_retracted(self, survivors: Iterable[Request]) -> None:
        """Memory ran out; `survivors` still run."""
        num_generated = num_allowed = 0
        for request in survivors:
            num_generated += request.num_output + TOKENS_AHEAD
            num_allowed += request.rules.max_new_tokens
        self.share = min(max(num_generated / (num_allowed + 1), self._first, self.share), 1.0)

    def note_idle(self) -> None:
        """Nobody is left of those from whom the share was learnt."""
        self.share = self._first

    def num_tokens(self, request: Request) -> int:
        """KV that `request` is taken to need for tokens it has not generated yet. The last one needs none."""
        num_left = max(request.num_tokens_left - 1, 0)
        if not request.rules.can_stop_early:
            return num_left
        num_probable = math.ceil(min(num_left, MAX_RESERVED_TOKENS) * self.share)
        return max(num_probable, min(request.rules.min_new_tokens - request.num_output - 1, num_left))

    def num_slots(self, request: Request, memory: RequestMemory) -> int:
        """Slots, in whole pages, that `request` is taken to need beyond those it holds."""
        num_held = request.holding.num_slots if request.holding is not None else request.num_computed
        num_known = request.num_tokens + request.num_pending
        return memory.num_needed(request, max(num_known - num_held + self.num_tokens(request), 0))
