"""Logit bias, and tokens that must not be sampled, of one row."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch


def add_logit_bias(logits: torch.Tensor, logit_bias: Sequence[tuple[int, float]]) -> None:
    """Change `logits` (V,) in place. An id named twice gets both."""
    ids, biases = zip(*logit_bias, strict=True)
    logits.index_add_(
        0,
        torch.tensor(ids, dtype=torch.int64, device=logits.device),
        torch.tensor(biases, dtype=logits.dtype, device=logits.device),
    )


def ban(logits: torch.Tensor, token_ids: npt.NDArray[np.int64]) -> None:
    """Make `token_ids` impossible, whatever their bias was; in place."""
    logits[torch.tensor(token_ids, dtype=torch.int64, device=logits.device)] = -torch.inf
