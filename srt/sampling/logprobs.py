"""Log-probabilities of tokens, from rows of raw logits: natural logarithms of the model's own distribution.

Raw: before penalties, bias, bans, grammar, temperature and truncation. So a row's values depend on its own logits
and on nothing else. Summed in float64. A NaN logit counts as impossible; no value is infinite or NaN, for JSON
knows neither: the least is `FLOOR`.

Off the request's path; joins it at managers/scheduler/logprob_teller.py
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch

FLOOR = -9999.0


class Wanted(NamedTuple):
    """What is wanted of one row of logits."""

    token_id: int  # the token that came there
    num_top: int = 0  # so many of the likeliest
    asked_ids: tuple[int, ...] = ()  # and these


class Found(NamedTuple):
    """What was wanted of one row."""

    logprob: float
    top: list[tuple[int, float]]  # likeliest first, equally likely ones by id
    asked: list[float]


class LogprobReader:
    """A `LogitReader` that keeps the log-probabilities of what it reads. `wanted` has one entry a row.

    `wanted` None: it reads only because all ranks compute the same, and keeps nothing.
    """

    def __init__(self, rows: torch.Tensor, wanted: Sequence[Wanted] | None) -> None:
        self.rows = rows
        self.found: list[Found] = []
        self._wanted = wanted

    def read(self, logits: torch.Tensor) -> None:
        """See srt/forward_batch.py."""
        if self._wanted is not None:
            start = len(self.found)
            self.found += find_logprobs(logits, self._wanted[start : start + len(logits)])


def find_logprobs(logits: torch.Tensor, wanted: Sequence[Wanted]) -> list[Found]:
    """One entry a row of `logits` (N, V), which stay as they are."""
    assert len(logits) == len(wanted), f"{len(logits)} rows of logits for {len(wanted)}"
    with torch.inference_mode():
        logits = logits.float()
        log_sums = _log_sums(logits)
        if not log_sums.isfinite().all():
            logits = logits.nan_to_num(nan=-torch.inf, neginf=-torch.inf)  # +inf becomes the greatest float
            log_sums = _log_sums(logits)
        rows = list(range(len(wanted)))
        own = _values(logits, log_sums, rows, [want.token_id for want in wanted])
        tops = _tops(logits, log_sums, [want.num_top for want in wanted])
        asked = _asked(logits, log_sums, [want.asked_ids for want in wanted])
    return list(map(Found, own, tops, asked))


def _log_sums(logits: torch.Tensor) -> torch.Tensor:
    """(N,) float64."""
    greatest = logits.amax(dim=1, keepdim=True)
    sums = (logits - greatest).exp_().sum(dim=1, dtype=torch.float64)
    return greatest.squeeze(1).double() + sums.log_()


def _values(
    logits: torch.Tensor, log_sums: torch.Tensor, rows: Sequence[int], token_ids: Sequence[int]
) -> list[float]:
    """The log-probability of each (row, token id)."""
    at = torch.tensor(rows, device=logits.device), torch.tensor(token_ids, device=logits.device)
    return _finite(logits[at].double() - log_sums[at[0]])


def _finite(logprobs: torch.Tensor) -> list[float]:
    values: list[float] = logprobs.nan_to_num(nan=FLOOR).clamp(min=FLOOR).tolist()
    return values


def _asked(
    logits: torch.Tensor, log_sums: torch.Tensor, ids_by_row: Sequence[tuple[int, ...]]
) -> list[list[float]]:
    if not any(ids_by_row):
        return [[] for _ in ids_by_row]
    rows = [row for row, ids in enumerate(ids_by_row) for _ in ids]
    values = iter(_values(logits, log_sums, rows, [token_id for ids in ids_by_row for token_id in ids]))
    return [[next(values) for _ in ids] for ids in ids_by_row]


def _tops(logits: torch.Tensor, log_sums: torch.Tensor, nums: Sequence[int]) -> list[list[tuple[int, float]]]:
    """The likeliest `nums[row]` of each row."""
    tops: list[list[tuple[int, float]]] = [[] for _ in nums]
    rows = [row for row, num in enumerate(nums) if num > 0]
    if not rows:
        return tops
    among = logits if len(rows) == len(nums) else logits[rows]
    # One more than wanted shows whether the last place is contested.
    values, token_ids = torch.topk(among, min(max(nums) + 1, logits.shape[1]), dim=1)
    logprobs = values.double() - log_sums[rows].unsqueeze(1)
    by_row = zip(rows, values.tolist(), token_ids.tolist(), logprobs, strict=True)
    for row, row_values, row_ids, row_logprobs in by_row:
        num = min(nums[row], logits.shape[1])
        if num < len(row_values) and row_values[num - 1] == row_values[num]:
            row_ids = _with_lowest_tied(logits[row], row_values[:num], row_ids)
        # Equal logits in a row: topk leaves their order open.
        ranked = sorted(zip(row_values[:num], row_ids, strict=False), key=lambda pair: (-pair[0], pair[1]))
        tops[row] = list(zip((token_id for _, token_id in ranked), _finite(row_logprobs[:num]), strict=True))
    return tops


def _with_lowest_tied(logits: torch.Tensor, values: Sequence[float], token_ids: Sequence[int]) -> list[int]:
    """`token_ids` of the greatest `values`, where those that equal the last one are the lowest ids there are."""
    tied = values[-1]
    certain = [token_id for value, token_id in zip(values, token_ids, strict=False) if value > tied]
    lowest: list[int] = torch.nonzero(logits == tied).squeeze(1)[: len(values) - len(certain)].tolist()
    return certain + lowest
