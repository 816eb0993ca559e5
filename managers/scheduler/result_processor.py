"""`ResultProcessor`: apply one step's sampled tokens. Requests grow, are shared, end.

In two parts, because the next step needs the tokens but can do without the verdicts: `grow`, then `judge`. A request
may have ended, or lost its memory to another, while the step was in flight: the first is past caring, the second
keeps its token. The only way out for a request, however it ends, is `retire`: memory back, one last word.
Next on the request's path: managers/scheduler/output_builder.py
"""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from managers.scheduler.batch import Batch
from managers.scheduler.decision_digest import Decision, DecisionDigest
from managers.scheduler.finish import BROKEN, LENGTH, Finish, broken
from managers.scheduler.output_builder import OutputBuilder
from managers.scheduler.request import Request, Stage
from managers.scheduler.request_memory import RequestMemory
from managers.scheduler.waiting_queue import WaitingQueue
from managers.scheduler.work_counts import WorkCounts


class ResultProcessor:
    """Changes the requests of a step once the model has answered."""

    def __init__(
        self,
        waiting: WaitingQueue,
        memory: RequestMemory,
        output: OutputBuilder,
        digest: DecisionDigest,
        work: WorkCounts,
        clock: Callable[[], float],
    ) -> None:
        self._waiting = waiting
        self._memory = memory
        self._output = output
        self._digest = digest
        self._work = work
        self._clock = clock  # for people: every rank has its own, and nothing is decided by it

    def grow(self, batch: Batch, token_ids: npt.NDArray[np.int64]) -> None:
        """One token for each of `batch.sampling`."""
        self._digest.record_array(Decision.SAMPLED, token_ids)
        for index, token_id in zip(batch.sampling, token_ids.tolist(), strict=True):
            request = batch.rows[index].request
            if request.stage is not Stage.FINISHED:
                # What is no token will end the request; until then, the model must be able to look it up.
                request.append(token_id if 0 <= token_id < request.rules.vocab_size else 0)

    def judge(self, batch: Batch, token_ids: npt.NDArray[np.int64]) -> list[Request]:
        """After `grow`, with the same arguments: share, go on or end. Returns who ended, already retired."""
        ended: list[Request] = []
        for request, num_tokens in batch.rows:
            if request.stage is Stage.RUNNING and (num_tokens > 1 or not request.has_computed_prompt):
                self._prefill_advanced(request, ended)
        for index, token_id in zip(batch.sampling, token_ids.tolist(), strict=True):
            request = batch.rows[index].request
            if request.stage is Stage.FINISHED:
                continue
            finish = _judge_last_token(request, token_id)
            if finish is None:
                self._output.tokens_grew(request)
            else:
                self.retire(request, finish)
                ended.append(request)
        return ended

    def retire(self, request: Request, finish: Finish) -> None:
        """End a request, wherever it is: keep its KV for others, give its memory back, say the last word.

        Slots that a step in flight still uses may be given away: whoever gets them runs in a later one.
        """
        if request.stage is Stage.WAITING:
            self._waiting.remove(request)
        if request.holding is not None:
            if finish.reason.status_code != BROKEN:
                self._memory.share(request)
            self._memory.let_go(request)
        request.stage = Stage.FINISHED
        text_end = -1 if finish.text_end is None else finish.text_end
        self._digest.record(
            Decision.FINISH, (request.id, request.num_output, text_end, finish.reason.status_code)
        )
        self._work.ended(finish)
        self._output.finished(request, finish, self._clock())

    def _prefill_advanced(self, request: Request, ended: list[Request]) -> None:
        # At once, so that whoever has the same prompt need not wait for this request to end.
        self._memory.share(request)
        if request.has_computed_prompt or request.num_computed < request.prompt_len:
            return
        if request.logprobs is not None and request.logprobs.is_awaiting:
            return  # with overlap, its last chunk is still on the way
        request.has_computed_prompt = True
        request.first_token_at = self._clock()
        if request.rules.max_new_tokens == 0:
            self.retire(request, LENGTH)
            ended.append(request)


def _judge_last_token(request: Request, token_id: int) -> Finish | None:
    rules, grammar, match, is_whole = request.rules, request.grammar, None, False
    if request.stop_strings is None and grammar is None and rules.goes_on(len(request.output_ids), token_id):
        return None
    if token_id != request.output_ids[-1]:
        del request.output_ids[-1]  # it only stood in for what is no token
        return rules.decide(request.num_output, token_id, None)
    if request.stop_strings is not None:
        match = request.stop_strings.push(token_id)
    if grammar is not None and token_id not in rules.stop_token_ids:
        grammar.push(token_id)
        if grammar.is_broken:
            return broken("the answer cannot go on as its grammar wants it")
        is_whole = grammar.is_whole
    return rules.decide(request.num_output, token_id, match, is_whole=is_whole)
