import gguf
import numpy as np
import numpy.typing as npt
import pytest

from srt.configs.gguf_file import BLOCK_TYPES
from srt.model_loader.gguf_blocks import BLOCKS_PER_SLICE, decode

# Where each block type keeps its float16 factors. Random bytes there would often be infinite or no number.
FACTORS_AT = {"Q4_0": (0,), "Q4_1": (0, 2), "Q5_0": (0,), "Q5_1": (0, 2), "Q8_0": (0,)}
FACTORS_AT |= {"Q4_K": (0, 2), "Q5_K": (0, 2), "Q6_K": (208,), "Q3_K": (108,)}
# More than one slice, and not a whole number of them.
NUM_BLOCKS = BLOCKS_PER_SLICE + 17


def random_blocks(name: str, num_bytes: int) -> npt.NDArray[np.uint8]:
    random = np.random.default_rng(7)
    blocks = random.integers(0, 256, (NUM_BLOCKS, num_bytes), dtype=np.uint8)
    for start in FACTORS_AT.get(name, ()):
        factors = random.standard_normal(NUM_BLOCKS).astype("<f2")
        blocks[:, start : start + 2] = factors.view(np.uint8).reshape(-1, 2)
    if name in ("F32", "F16", "BF16"):
        return random.standard_normal(NUM_BLOCKS * num_bytes // 4).astype("<f4").view(np.uint8)
    return blocks


# What only the reference decodes is the reference's: one of them tells that it is asked.
@pytest.mark.parametrize("type_id", [0, 1, 2, 3, 6, 7, 8, 11, 12, 13, 14, 30])
def test_random_blocks_decode_bit_for_bit_as_the_reference_does(type_id: int) -> None:
    block_type = BLOCK_TYPES[type_id]
    blocks = random_blocks(block_type.name, block_type.num_bytes)
    ours = decode(block_type.name, blocks.reshape(-1), block_type.block_size, block_type.num_bytes)
    with np.errstate(all="ignore"):
        reference = gguf.quants.dequantize(
            blocks.reshape(-1, block_type.num_bytes), gguf.GGMLQuantizationType(type_id)
        ).astype(np.float32)
    assert ours.dtype == np.float32
    assert np.array_equal(ours.view(np.uint32), reference.reshape(-1).view(np.uint32))


def test_the_layouts_are_those_of_the_reference() -> None:
    for type_id, block_type in BLOCK_TYPES.items():
        reference = gguf.GGMLQuantizationType(type_id)
        assert block_type.name == reference.name
        assert (block_type.block_size, block_type.num_bytes) == gguf.GGML_QUANT_SIZES[reference]
