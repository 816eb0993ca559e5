"""A GGUF file's quantised tensors as they are: levels and scales, under Hugging Face names.

Only the types that are groups of 32 with one scale: Q4_0, Q4_1 and Q8_0. The others are for gguf_stream.py to decode.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from srt.configs.gguf_file import GgufTensor, read_gguf
from srt.configs.model_config import ModelConfig
from srt.model_loader.gguf_blocks import Bytes
from srt.model_loader.gguf_stream import heads_to_reorder, hf_name
from srt.model_loader.shard import Slice
from srt.util.quantized_weight import GROUP, QuantizedWeight

Array = npt.NDArray[Any]
_Parts = tuple[Array, Array, Array | None]  # of one type each: levels, scales, minimums
_Reader = Callable[[Array], _Parts]


def quantized_weights(slices: Mapping[str, Slice], config: ModelConfig) -> dict[str, QuantizedWeight]:
    """Those of the named slices that can be had so; none of a checkpoint that is no GGUF file."""
    if config.checkpoint_format != "gguf":
        return {}
    file = read_gguf(config.path)
    num_heads, num_kv_heads = heads_to_reorder(file)
    found: dict[str, QuantizedWeight] = {}
    for tensor in file.tensors.values():
        name = hf_name(tensor.name)
        read = _READERS.get(tensor.type.name)
        if name is None or name not in slices or read is None or slices[name].shape != tensor.shape:
            continue
        heads = {"attn_q": num_heads, "attn_k": num_kv_heads}.get(tensor.name.split(".")[-2], 0)
        part = _cut(_read(tensor, read, heads), slices[name])
        if part is not None:
            found[name] = part
    return found


def _read(tensor: GgufTensor, read: _Reader, num_heads: int) -> QuantizedWeight:
    num_rows, num_columns = tensor.shape
    parts = read(tensor.data.reshape(-1, tensor.type.num_bytes))
    shapes = ((num_rows, num_columns), (num_rows, num_columns // GROUP), (num_rows, num_columns // GROUP))
    arrays = [
        None if part is None else torch.from_numpy(np.ascontiguousarray(part.reshape(shape)))
        for part, shape in zip(parts, shapes, strict=True)
    ]
    if num_heads:
        # A head's rows from pairs side by side to halves, as gguf_stream.py does.
        order = torch.arange(num_rows).view(num_heads, -1, 2).transpose(1, 2).flatten()
        arrays = [None if array is None else array[order] for array in arrays]
    levels, scales, minimums = arrays
    assert levels is not None, "every reader gives levels"
    assert scales is not None, "every reader gives scales"
    return QuantizedWeight(levels, scales, minimums)


def _cut(weight: QuantizedWeight, part: Slice) -> QuantizedWeight | None:
    if part.dim is None:
        return weight
    cut = weight.rows if part.dim == 0 else weight.columns
    return cut(part.span.start, part.span.stop)


def _halves(blocks: Bytes, start: int) -> Array:
    return blocks[:, start : start + 2].copy().view("<f2")


def _nibbles(packed: Bytes) -> Bytes:
    return np.concatenate([packed & np.uint8(0x0F), packed >> np.uint8(4)], axis=-1)


def _q4_0(blocks: Bytes) -> _Parts:
    scales = _halves(blocks, 0)
    return _nibbles(blocks[:, 2:]), scales, scales * np.float16(-8)


def _q4_1(blocks: Bytes) -> _Parts:
    return _nibbles(blocks[:, 4:]), _halves(blocks, 0), _halves(blocks, 2)


def _q8_0(blocks: Bytes) -> _Parts:
    return blocks[:, 2:].view(np.int8), _halves(blocks, 0), None


_READERS: dict[str, _Reader] = {"Q4_0": _q4_0, "Q4_1": _q4_1, "Q8_0": _q8_0}
