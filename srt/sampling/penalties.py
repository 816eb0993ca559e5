"""Frequency, presence and repetition penalties of one row, on the tokens it has seen and no others.

First the additive ones, for tokens of the output: logit -= frequency · count + presence. Then repetition, for tokens
of prompt and output: a positive logit is divided, a negative one multiplied. Computed in float64 and rounded
once, so that the result is the float32 nearest to the true value.
"""

import torch

from srt.sampling.batch_params import SampleRow


def apply_penalties(logits: torch.Tensor, row: SampleRow) -> None:
    """Change `logits` (V,) in place; nothing to do without penalties or before any token."""
    params = row.params
    if row.seen_ids is None or row.seen_output_counts is None or not params.has_penalties:
        return
    seen_ids = torch.tensor(row.seen_ids, dtype=torch.int64, device=logits.device)
    counts = torch.tensor(row.seen_output_counts, dtype=torch.float64, device=logits.device)
    seen = logits[seen_ids].double()  # (num_seen,)
    seen -= params.frequency_penalty * counts + params.presence_penalty * (counts > 0).double()
    if params.repetition_penalty != 1.0:
        seen = torch.where(seen > 0, seen / params.repetition_penalty, seen * params.repetition_penalty)
    logits[seen_ids] = seen.to(logits.dtype)
