"""Decode GGUF's tensor types to numbers: a row of bytes a block in, a row of float32 out.

Vectorised over blocks and exact: every product is rounded where ggml's reference rounds it, so the result is
bit for bit what `gguf.quants` and llama.cpp give. Formats: ggml's block_q4_0 … block_q6_K; rarer ones are left to
`gguf.quants`.
"""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float32]

# Blocks decoded at a time: the intermediate arrays of one slice stay in the cache.
BLOCKS_PER_SLICE = 4096


def decode(type_name: str, data: Bytes, block_size: int, block_num_bytes: int) -> Floats:
    """All values of a tensor, flat."""
    if type_name in _PLAIN:
        return _PLAIN[type_name](data)
    decode_blocks = _BLOCKS.get(type_name) or _reference(type_name)
    blocks = data.reshape(-1, block_num_bytes)
    values = np.empty((len(blocks), block_size), np.float32)
    for start in range(0, len(blocks), BLOCKS_PER_SLICE):
        stop = start + BLOCKS_PER_SLICE
        values[start:stop] = decode_blocks(blocks[start:stop])
    return values.reshape(-1)


def _reference(type_name: str) -> Callable[[Bytes], Floats]:
    """For the rarer types: slower, and an import that other files do not have to wait for."""
    import gguf

    tensor_type = gguf.GGMLQuantizationType[type_name]
    return lambda blocks: np.asarray(gguf.quants.dequantize(blocks, tensor_type), np.float32)


def _f32(data: Bytes) -> Floats:
    return data.view("<f4").astype(np.float32)


def _f16(data: Bytes) -> Floats:
    return data.view("<f2").astype(np.float32)


def _bf16(data: Bytes) -> Floats:
    return (data.view("<u2").astype(np.uint32) << np.uint32(16)).view(np.float32)


def _half(blocks: Bytes, start: int) -> Floats:
    """One float16 a block, as a column."""
    return blocks[:, start : start + 2].copy().view("<f2").astype(np.float32)


def half_bytes(packed: Bytes) -> Bytes:
    """(blocks, …, n) bytes → (blocks, …, 2n): the low halves, then the high ones."""
    return np.concatenate([packed & np.uint8(0x0F), packed >> np.uint8(4)], axis=-1)


def five_bits(packed: Bytes, high: Bytes) -> Bytes:
    """32 values a block: 16 bytes of low halves, and 4 bytes with a bit for each value."""
    return half_bytes(packed) | np.unpackbits(high, axis=-1, bitorder="little") << np.uint8(4)


def five_bits_k(blocks: Bytes) -> Bytes:
    """The 256 values of a Q5_K block, as (blocks, 8, 32)."""
    low = half_bytes(blocks[:, 48:].reshape(-1, 4, 32)).reshape(-1, 8, 32)
    # Bit i of byte j belongs to value j of group i.
    high = (blocks[:, None, 16:48] >> np.arange(8, dtype=np.uint8)[:, None]) & np.uint8(1)
    return low | high << np.uint8(4)


def six_bits(blocks: Bytes) -> Bytes:
    """The 256 values of a Q6_K block, as (blocks, 8, 32)."""
    low = half_bytes(blocks[:, :128].reshape(-1, 2, 64)).reshape(-1, 8, 32)
    packed = blocks[:, 128:192].reshape(-1, 2, 1, 32)
    high = (packed >> np.array([0, 2, 4, 6], np.uint8).reshape(1, 1, 4, 1)) & np.uint8(3)
    return low | high.reshape(-1, 8, 32) << np.uint8(4)


def six_bit_pairs(packed: Bytes) -> tuple[Bytes, Bytes]:
    """12 bytes → 8 scales and 8 minimums. The last four of each have their upper two bits in the first eight bytes."""
    first, second, rest = packed[:, 0:4], packed[:, 4:8], packed[:, 8:12]
    low_six, high_two = np.uint8(0x3F), np.uint8(6)
    scales = [first & low_six, (rest & np.uint8(0x0F)) | (first >> high_two << np.uint8(4))]
    minimums = [second & low_six, (rest >> np.uint8(4)) | (second >> high_two << np.uint8(4))]
    return np.concatenate(scales, axis=1), np.concatenate(minimums, axis=1)


def _q4_0(blocks: Bytes) -> Floats:
    return _half(blocks, 0) * (half_bytes(blocks[:, 2:]).astype(np.float32) - np.float32(8))


def _q4_1(blocks: Bytes) -> Floats:
    return _half(blocks, 0) * half_bytes(blocks[:, 4:]).astype(np.float32) + _half(blocks, 2)


def _q5_0(blocks: Bytes) -> Floats:
    values = five_bits(blocks[:, 6:], blocks[:, 2:6]).astype(np.float32)
    return _half(blocks, 0) * (values - np.float32(16))


def _q5_1(blocks: Bytes) -> Floats:
    return _half(blocks, 0) * five_bits(blocks[:, 8:], blocks[:, 4:8]).astype(np.float32) + _half(blocks, 2)


def _q8_0(blocks: Bytes) -> Floats:
    return _half(blocks, 0) * blocks[:, 2:].view(np.int8).astype(np.float32)


def _q4_k(blocks: Bytes) -> Floats:
    # Group 2i is the low halves of the i-th 32 bytes, group 2i + 1 the high ones.
    return _by_six_bit_pairs(blocks, half_bytes(blocks[:, 16:].reshape(-1, 4, 32)).reshape(-1, 8, 32))


def _q5_k(blocks: Bytes) -> Floats:
    return _by_six_bit_pairs(blocks, five_bits_k(blocks))


def _by_six_bit_pairs(blocks: Bytes, values: Bytes) -> Floats:
    """256 values in 8 groups; each group has a 6-bit scale and a 6-bit minimum."""
    scales, minimums = (pair.astype(np.float32) for pair in six_bit_pairs(blocks[:, 4:16]))
    scale = (_half(blocks, 0) * scales)[:, :, None]
    minimum = (_half(blocks, 2) * minimums)[:, :, None]
    return (scale * values.astype(np.float32) - minimum).reshape(-1, 256)


def _q6_k(blocks: Bytes) -> Floats:
    """256 values in 16 groups of 16, each with an 8-bit scale; a value's upper two bits are stored apart."""
    values = six_bits(blocks).astype(np.float32) - np.float32(32)
    scales = _half(blocks, 208) * blocks[:, 192:208].view(np.int8).astype(np.float32)
    return (scales[:, :, None] * values.reshape(-1, 16, 16)).reshape(-1, 256)


_PLAIN: dict[str, Callable[[Bytes], Floats]] = {"F32": _f32, "F16": _f16, "BF16": _bf16}
_BLOCKS: dict[str, Callable[[Bytes], Floats]] = {
    "Q4_0": _q4_0,
    "Q4_1": _q4_1,
    "Q5_0": _q5_0,
    "Q5_1": _q5_1,
    "Q8_0": _q8_0,
    "Q4_K": _q4_k,
    "Q5_K": _q5_k,
    "Q6_K": _q6_k,
}
