"""`LogprobTeller`: the log-probabilities that the requests of a step asked for, out of its logits.

Those of prompts are read inside the forward pass, a slice at a time. Those of the answer are computed after the next
step has started, from copies of the few rows that matter: the sampler changes logits in place. Only one rank talks,
so only one computes; the others read the same rows, because all must compute the same logits.

Off the request's path; joins it at managers/scheduler/scheduler.py
"""

import numpy as np
import numpy.typing as npt
import torch

from managers.scheduler.batch import Batch
from managers.scheduler.request import Stage
from srt.sampling.logprobs import LogprobReader, Wanted, find_logprobs


class LogprobTeller:
    """Of one rank. `is_talking`: whether anybody hears what it finds."""

    def __init__(self, *, is_talking: bool) -> None:
        self._is_talking = is_talking
        self._raw: torch.Tensor | None = None

    def reader(self, batch: Batch) -> LogprobReader | None:
        """What the model must read for the sake of prompts; nothing for most."""
        if not batch.prompt_spans:
            return None
        row_starts = np.cumsum([0, *(row.num_tokens for row in batch.rows)])
        rows: list[int] = []
        wanted: list[Wanted] = []
        for index, positions in batch.prompt_spans:
            keeper = batch.rows[index].request.logprobs
            assert keeper is not None
            offset = int(row_starts[index]) - batch.starts[index]
            rows += (offset + position for position in positions)
            wanted += map(keeper.wanted_after, positions)
        return LogprobReader(torch.tensor(rows), wanted if self._is_talking else None)

    def keep(self, batch: Batch, logits: torch.Tensor) -> None:
        """Before they are sampled: what the answers' logprobs need of the logits."""
        if batch.telling and self._is_talking:
            self._raw = logits[batch.telling]

    def tell(self, batch: Batch, token_ids: npt.NDArray[np.int64], reader: LogprobReader | None) -> None:
        """After `keep`, once the requests have these tokens: let them know."""
        if reader is not None:
            _tell_prompts(batch, reader)
        if batch.telling and self._is_talking:
            self._tell_answers(batch, token_ids)

    def _tell_answers(self, batch: Batch, token_ids: npt.NDArray[np.int64]) -> None:
        raw, self._raw = self._raw, None
        assert raw is not None, "keep comes before tell"
        wanted: list[Wanted] = []
        telling = [
            (batch.rows[batch.sampling[place]].request, int(token_ids[place])) for place in batch.telling
        ]
        for request, token_id in telling:
            assert request.logprobs is not None
            # What is no token ends the request.
            wanted.append(request.logprobs.wanted_of(token_id if request.rules.is_token(token_id) else 0))
        for (request, token_id), found in zip(telling, find_logprobs(raw, wanted), strict=True):
            if request.stage is not Stage.FINISHED and request.rules.is_token(token_id):
                assert request.logprobs is not None
                request.logprobs.add_to_output(token_id, found)


def _tell_prompts(batch: Batch, reader: LogprobReader) -> None:
    start = 0
    for index, positions in batch.prompt_spans:
        request = batch.rows[index].request
        end = start + len(positions)
        if request.logprobs is not None and request.stage is not Stage.FINISHED:
            request.logprobs.end_step(len(positions), reader.found[start:end])
        start = end
