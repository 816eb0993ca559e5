"""Logit bias and tokens that must not be sampled, of one row; tokens that alone may be, of several."""

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


def allow_only(logits: torch.Tensor, rows: Sequence[int], bits: Sequence[npt.NDArray[np.int32]]) -> None:
    """Make impossible, in these rows of `logits` (S, V), whatever has no bit in theirs; in place."""
    packed = np.stack(bits)  # (R, words)
    if logits.device.type == "cpu":
        allowed = np.unpackbits(packed.view(np.uint8), axis=1, count=logits.shape[1], bitorder="little")
        for row, row_allowed in zip(rows, torch.from_numpy(allowed == 0), strict=True):
            logits[row].masked_fill_(row_allowed, -torch.inf)
        return
    # A thirty-second of the bytes to carry over.
    words = torch.from_numpy(packed).to(logits.device)
    shifts = torch.arange(32, dtype=torch.int32, device=logits.device)
    flat = ((words[:, :, None] >> shifts) & 1).flatten(1)[:, : logits.shape[1]]  # (R, V)
    index = torch.tensor(list(rows), device=logits.device)
    logits[index] = logits[index].masked_fill(flat == 0, -torch.inf)


def is_allowed(bits: npt.NDArray[np.int32], token_id: int) -> bool:
    """Whether a token has its bit."""
    return bool(int(bits[token_id // 32]) >> (token_id % 32) & 1)
