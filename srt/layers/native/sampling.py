"""`NativeChooser`: the tokens of a whole batch in one call of the native kernels.

Draws the tokens that srt/sampling/exponential_race.py draws: the same cuts, the same random bits, and arrivals in
float64 where float32 is used there. So where the two front runners arrive within 3e-7 of each other, which happens in
one draw of three million, the other may win. And weights for the cuts may differ in their last bits: a token as close
as that to the border of top-p or min-p may fall on its other side.
"""

import struct
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch

from srt.layers.native.library import KernelLibrary
from srt.sampling.batch_params import SampleRow
from srt.sampling.exponential_race import MAX_TEMPERATURE
from srt.sampling.seeded_noise import MASK_64

TokenIds = npt.NDArray[np.int64]

# sampling.cpp's Settings: seed, position, allowed, top_p, min_p, temperature (0: the likeliest), top_k.
SETTINGS = struct.Struct("=QQQddfi")
MAX_TOP_K = 2**31 - 1
GREEDY = SETTINGS.pack(0, 0, 0, 1.0, 0.0, 0.0, 0)
READABLE = (torch.float32, torch.bfloat16)


class NativeChooser:
    """RowChooser. A row on one of the library's threads."""

    def __init__(self, library: KernelLibrary) -> None:
        self._library = library

    def __call__(self, logits: torch.Tensor, rows: Sequence[SampleRow]) -> TokenIds:
        """(S,) token ids for `logits` (S, V) on the CPU, which stay as they are. bfloat16 is read as it is."""
        num_rows, vocab_size = logits.shape
        token_ids = np.empty(num_rows, np.int64)
        if not num_rows:
            return token_ids
        if logits.dtype not in READABLE:
            logits = logits.float()
        assert logits.stride(1) == 1, f"logits have strides {logits.stride()}"
        masks = [None if row.allowed is None else _whole(row.allowed, vocab_size) for row in rows]
        self._library.sample(
            logits.data_ptr(),
            logits.dtype == torch.bfloat16,
            logits.stride(0),
            num_rows,
            vocab_size,
            b"".join(map(_settings, rows, masks)),
            token_ids.ctypes.data,
            self._library.threads(),
        )
        return token_ids


def _whole(allowed: npt.NDArray[np.int32], vocab_size: int) -> npt.NDArray[np.int32]:
    """Contiguous, and with a bit for every id: what is not named is not allowed."""
    num_missing = -(-vocab_size // 32) - len(allowed)
    if num_missing > 0:
        return np.concatenate([allowed, np.zeros(num_missing, np.int32)])
    return np.ascontiguousarray(allowed)


def _settings(row: SampleRow, allowed: npt.NDArray[np.int32] | None) -> bytes:
    params = row.params
    if params.is_greedy and allowed is None:  # as many
        return GREEDY
    return SETTINGS.pack(
        (params.seed or 0) & MASK_64,
        row.position,
        0 if allowed is None else allowed.ctypes.data,
        params.top_p,
        params.min_p,
        0.0 if params.is_greedy else min(params.temperature, MAX_TEMPERATURE),
        min(max(params.top_k, 0), MAX_TOP_K),
    )
