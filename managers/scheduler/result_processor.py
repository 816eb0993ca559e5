"""`ResultProcessor`: apply one step's sampled tokens. Requests grow, are shared, end.

The only way out for a request, however it ends, is `retire`: memory back, one last word.
Next on the request's path: managers/scheduler/output_builder.py
"""

import numpy as np
import numpy.typing as npt

from managers.scheduler.batch import Batch
from managers.scheduler.decision_digest import Decision, DecisionDigest
from managers.scheduler.finish import BROKEN, LENGTH, Finish
from managers.scheduler.output_builder import OutputBuilder
from managers.scheduler.request import Request, Stage
from managers.scheduler.request_memory import RequestMemory


class ResultProcessor:
    """Changes the requests of a step once the model has answered."""

    def __init__(self, memory: RequestMemory, output: OutputBuilder, digest: DecisionDigest) -> None:
        self._memory = memory
        self._output = output
        self._digest = digest

    def apply(self, batch: Batch, token_ids: npt.NDArray[np.int64]) -> list[Request]:
        """One token for each of `batch.sampling`; returns the requests that ended, already retired."""
        ended: list[Request] = []
        for request, num_tokens in batch.rows:
            request.num_computed += num_tokens
            if num_tokens > 1 or not request.has_computed_prompt:
                self._prefill_advanced(request, ended)
        self._digest.record_array(Decision.SAMPLED, token_ids)
        for request, token_id in zip(batch.sampling, token_ids.tolist(), strict=True):
            finish = _append(request, token_id)
            if finish is None:
                self._output.tokens_grew(request)
            else:
                self.retire(request, finish)
                ended.append(request)
        return ended

    def retire(self, request: Request, finish: Finish) -> None:
        """End a request, wherever it is: keep its KV for others, give its memory back, say the last word."""
        if request.holding is not None:
            if finish.reason.status_code != BROKEN:
                self._memory.share(request)
            self._memory.let_go(request)
        request.stage = Stage.FINISHED
        text_end = -1 if finish.text_end is None else finish.text_end
        self._digest.record(
            Decision.FINISH, (request.id, request.num_output, text_end, finish.reason.status_code)
        )
        self._output.finished(request, finish)

    def _prefill_advanced(self, request: Request, ended: list[Request]) -> None:
        # At once, so that whoever has the same prompt need not wait for this request to end.
        self._memory.share(request)
        if request.has_computed_prompt or request.num_computed < request.prompt_len:
            return
        request.has_computed_prompt = True
        if request.rules.max_new_tokens == 0:
            self.retire(request, LENGTH)
            ended.append(request)


def _append(request: Request, token_id: int) -> Finish | None:
    if not 0 <= token_id < request.rules.vocab_size:
        return request.rules.decide(request.num_output, token_id, None)  # not a token: it is not kept
    request.append(token_id)
    match = request.stop_strings.push(token_id) if request.stop_strings is not None else None
    return request.rules.decide(request.num_output, token_id, match)
