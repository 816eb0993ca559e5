"""Products in tiles (AMX): the kernels' own loops, on instructions that are emulated, for few machines have them."""

import ctypes
import logging
import subprocess
from ctypes import c_bool, c_char_p, c_int32, c_int64, c_void_p
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from srt.env import compiler
from srt.layers.native.build import COMMON_FLAGS, FOLDER, THIS_PROCESSOR
from srt.layers.native.library import PAIRS_OF_BFLOAT16, may_use_tiles
from srt.layers.native.load import kernels

BLOCK = 48  # outputs that are packed together, if vectors are of 16 floats
STEP = 16  # pairs of inputs that an instruction takes

MAX_SHAPE = {"num_rows": st.integers(1, 70), "num_pairs": st.integers(1, 100), "seed": st.integers(0, 1000)}


@pytest.fixture(scope="module")
def emulated(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    if "AVX-512" not in kernels().instructions:
        pytest.skip("weights are packed for narrower vectors")
    source, target = (
        Path(__file__).parent / "emulated_tiles.cpp",
        tmp_path_factory.mktemp("tiles") / "tiles.so",
    )
    flags = [*COMMON_FLAGS, *THIS_PROCESSOR, "-shared", "-I", str(FOLDER)]
    subprocess.run([compiler(), *flags, str(source), "-o", str(target)], check=True)
    library = ctypes.CDLL(str(target))
    library.multiply_panels.argtypes = [c_void_p, c_int64, c_int32, c_void_p, c_int32, c_int32, c_void_p]
    library.multiply_panels.restype = None
    library.agrees.argtypes, library.agrees.restype = [c_bool], c_bool
    library.first_fault.restype, library.tiles_are_in_use.restype = c_char_p, c_bool
    return library


def random_values(num_rows: int, num_pairs: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Inputs, and the weights of a block."""
    random = torch.Generator().manual_seed(seed)
    inputs = torch.randn(num_rows, 2 * num_pairs, generator=random).bfloat16()
    return inputs, torch.randn(BLOCK, 2 * num_pairs, generator=random).bfloat16()


def multiply(
    emulated: ctypes.CDLL, inputs: torch.Tensor, weights: torch.Tensor, panel_pairs: int = 10_000
) -> torch.Tensor:
    num_rows, num_pairs = len(inputs), weights.shape[1] // 2
    size = kernels().packed_bytes(PAIRS_OF_BFLOAT16, BLOCK, 2 * num_pairs, 0)
    packed = torch.zeros(size, dtype=torch.uint8)
    kernels().pack(weights.data_ptr(), BLOCK, 2 * num_pairs, packed.data_ptr())
    sums = torch.full((num_rows, BLOCK), torch.nan)
    emulated.multiply_panels(
        inputs.data_ptr(),
        inputs.stride(0),
        num_rows,
        packed.data_ptr(),
        num_pairs,
        panel_pairs,
        sums.data_ptr(),
    )
    assert emulated.first_fault() is None
    assert not emulated.tiles_are_in_use()
    return sums


@settings(max_examples=40)
@given(**MAX_SHAPE)
def test_every_sum_is_float32s_in_the_instructions_order(
    emulated: ctypes.CDLL, num_rows: int, num_pairs: int, seed: int
) -> None:
    inputs, weights = random_values(num_rows, num_pairs, seed)
    expected = torch.zeros(num_rows, BLOCK)
    for first in range(0, num_pairs, STEP):
        even, odd = torch.zeros(num_rows, BLOCK), torch.zeros(num_rows, BLOCK)
        for pair in range(first, min(first + STEP, num_pairs)):  # each product is exact in a float32
            even += inputs[:, 2 * pair, None].float() * weights[:, 2 * pair].float()
            odd += inputs[:, 2 * pair + 1, None].float() * weights[:, 2 * pair + 1].float()
        expected += even + odd
    assert torch.equal(multiply(emulated, inputs, weights), expected)


@settings(max_examples=20)
@given(**MAX_SHAPE)
def test_rows_stand_alone(emulated: ctypes.CDLL, num_rows: int, num_pairs: int, seed: int) -> None:
    inputs, weights = random_values(num_rows, num_pairs, seed)
    sums = multiply(emulated, inputs, weights)
    for row in range(num_rows):
        assert torch.equal(multiply(emulated, inputs[row : row + 1], weights)[0], sums[row])
    some = slice(num_rows // 3, num_rows // 3 + 17)
    assert torch.equal(multiply(emulated, inputs[some], weights), sums[some])


@settings(max_examples=20)
@given(panel_steps=st.integers(1, 4), **MAX_SHAPE)
def test_panels_are_one_product(
    emulated: ctypes.CDLL, num_rows: int, num_pairs: int, seed: int, panel_steps: int
) -> None:
    inputs, weights = random_values(num_rows, num_pairs, seed)
    sums = multiply(emulated, inputs, weights)
    assert torch.equal(multiply(emulated, inputs, weights, panel_pairs=panel_steps * STEP), sums)


def test_the_check_at_start_finds_tiles_right_and_a_wrong_processor_wrong(emulated: ctypes.CDLL) -> None:
    assert emulated.agrees(False)
    assert not emulated.agrees(True)
    assert emulated.first_fault() is None


def test_the_real_instructions_compile(tmp_path: Path) -> None:
    flags = [*COMMON_FLAGS, "-march=sapphirerapids"]
    if subprocess.run([compiler(), *flags, "-E", "-x", "c++", "/dev/null"], capture_output=True).returncode:
        pytest.skip("the compiler does not know of any processor that has them")
    command = [compiler(), *flags, "-S", str(FOLDER / "amx.cpp"), "-o", str(tmp_path / "amx.s")]
    subprocess.run(command, check=True)
    assert "tdpbf16ps" in (tmp_path / "amx.s").read_text()


@pytest.mark.parametrize(
    ("found", "reason"),
    [(0, None), (1, None), (-1, "Operation not permitted"), (2, "other products than AVX-512")],
)
def test_tiles_that_are_there_and_not_used_are_told_of(
    found: int, reason: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        assert may_use_tiles(found) == (found == 1)
    assert ("AMX" in caplog.text) == (reason is not None)
    assert (reason or "") in caplog.text
