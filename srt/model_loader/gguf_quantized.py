"""A GGUF tensor as it is quantised: its levels, scales and minimums.

The types that have no such form are for gguf_blocks.py to decode.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from srt.configs.gguf_file import GgufTensor
from srt.model_loader.gguf_blocks import Bytes, five_bits, five_bits_k, half_bytes, six_bit_pairs, six_bits
from srt.util.quantized_weight import FORMATS, QuantizedWeight, Steps

Array = npt.NDArray[Any]
_Values = tuple[Array, Array | None]  # scales or minimums, and factors; a row a block
_Parts = tuple[Array, _Values, _Values | None]  # levels, scales, minimums


def quantized_weight(tensor: GgufTensor) -> QuantizedWeight | None:
    """None for a tensor that is no matrix, or of a type without such a form."""
    read = _READERS.get(tensor.type.name)
    if read is None or len(tensor.shape) != 2:
        return None
    num_rows = tensor.shape[0]
    made = FORMATS[tensor.type.name]
    levels, scales, minimums = read(tensor.data.reshape(-1, tensor.type.num_bytes))
    return QuantizedWeight(
        format=made,
        levels=_tensor(levels.view(np.int8), num_rows),
        scales=_steps(scales, num_rows),
        minimums=None if minimums is None else _steps(minimums, num_rows),
    )


def _steps(values: _Values, num_rows: int) -> Steps:
    steps, factors = values
    return Steps(
        values=_tensor(steps, num_rows), factors=None if factors is None else _tensor(factors, num_rows)
    )


def _tensor(values: Array, num_rows: int) -> torch.Tensor:
    return torch.from_numpy(np.ascontiguousarray(values.reshape(num_rows, -1)))


def _halves(blocks: Bytes, start: int) -> Array:
    return blocks[:, start : start + 2].copy().view("<f2")


def _q4_0(blocks: Bytes) -> _Parts:
    return half_bytes(blocks[:, 2:]) - np.uint8(8), (_halves(blocks, 0), None), None


def _q4_1(blocks: Bytes) -> _Parts:
    return half_bytes(blocks[:, 4:]), (_halves(blocks, 0), None), (_halves(blocks, 2), None)


def _q5_0(blocks: Bytes) -> _Parts:
    return five_bits(blocks[:, 6:], blocks[:, 2:6]) - np.uint8(16), (_halves(blocks, 0), None), None


def _q5_1(blocks: Bytes) -> _Parts:
    levels = five_bits(blocks[:, 8:], blocks[:, 4:8])
    return levels, (_halves(blocks, 0), None), (_halves(blocks, 2), None)


def _q8_0(blocks: Bytes) -> _Parts:
    return blocks[:, 2:], (_halves(blocks, 0), None), None


def _four_or_five_bits_k(blocks: Bytes, levels: Array) -> _Parts:
    scales, minimums = six_bit_pairs(blocks[:, 4:16])
    # The minimum is taken away there, and added here.
    return (
        levels,
        (scales.view(np.int8), _halves(blocks, 0)),
        (minimums.view(np.int8), -_halves(blocks, 2)),
    )


def _q4_k(blocks: Bytes) -> _Parts:
    return _four_or_five_bits_k(blocks, half_bytes(blocks[:, 16:].reshape(-1, 4, 32)))


def _q5_k(blocks: Bytes) -> _Parts:
    return _four_or_five_bits_k(blocks, five_bits_k(blocks))


def _q6_k(blocks: Bytes) -> _Parts:
    levels = six_bits(blocks) - np.uint8(32)
    return levels, (blocks[:, 192:208].view(np.int8), _halves(blocks, 208)), None


_READERS: dict[str, Callable[[Bytes], _Parts]] = {
    "Q4_0": _q4_0,
    "Q4_1": _q4_1,
    "Q5_0": _q5_0,
    "Q5_1": _q5_1,
    "Q8_0": _q8_0,
    "Q4_K": _q4_k,
    "Q5_K": _q5_k,
    "Q6_K": _q6_k,
}
