"""Products with packed weights, against float32."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from srt.layers.native.build import ANY_PROCESSOR, THIS_PROCESSOR, build_library
from srt.layers.native.library import KernelLibrary
from srt.layers.native.linear import NativeLinear, NativeMethod
from srt.layers.native.load import load_library
from srt.util.quantized_weight import GROUP, QuantizedWeight


@pytest.fixture(scope="module", params=["this processor", "any processor"])
def library(request: pytest.FixtureRequest) -> KernelLibrary:
    return load_library(build_library(THIS_PROCESSOR if request.param == "this processor" else ANY_PROCESSOR))


@settings(max_examples=60)
@given(
    num_rows=st.integers(1, 150),
    num_outputs=st.integers(1, 150),
    num_pairs=st.integers(1, 100),
    has_bias=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_a_product_is_float32s_rounded_and_its_rows_stand_alone(
    library: KernelLibrary, num_rows: int, num_outputs: int, num_pairs: int, has_bias: bool, seed: int
) -> None:
    random = torch.Generator().manual_seed(seed)
    weight = torch.randn(num_outputs, 2 * num_pairs, generator=random).bfloat16()
    bias = torch.randn(num_outputs, generator=random).bfloat16() if has_bias else None
    inputs = torch.randn(num_rows, 2 * num_pairs, generator=random).bfloat16()
    linear = NativeLinear(library, weight, bias)
    outputs = linear(inputs)
    expected = inputs.double() @ weight.double().T + (0 if bias is None else bias.double())
    torch.testing.assert_close(outputs.double(), expected, rtol=2**-8, atol=1e-4 * num_pairs)
    assert torch.equal(linear(inputs[-1:]), outputs[-1:])


@settings(max_examples=60)
@given(
    num_rows=st.sampled_from([1, 2, 7, 8, 9, 40, 130]),
    num_outputs=st.integers(1, 150),
    num_groups=st.integers(1, 6),
    has_minimums=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_a_product_with_quantised_weights_rounds_no_weight_and_its_rows_stand_alone(
    library: KernelLibrary, num_rows: int, num_outputs: int, num_groups: int, has_minimums: bool, seed: int
) -> None:
    random = torch.Generator().manual_seed(seed)
    size, ends = (num_outputs, num_groups * GROUP), (num_outputs, num_groups)
    scales, minimums = (torch.randn(ends, generator=random).half() for _ in range(2))
    if has_minimums:
        levels = torch.randint(0, 16, size, generator=random, dtype=torch.uint8)
        weight = QuantizedWeight(levels, scales, minimums)
    else:
        levels = torch.randint(-128, 128, size, generator=random, dtype=torch.int8)
        weight = QuantizedWeight(levels, scales / 16, None)
    inputs = torch.randn(num_rows, size[1], generator=random).bfloat16()
    linear = NativeLinear(library, weight, None)
    outputs = linear(inputs)
    expected = inputs.double() @ weight.dense().double().T
    torch.testing.assert_close(outputs.double(), expected, rtol=2**-8, atol=1e-3 * num_groups)
    for row in range(num_rows):
        assert torch.equal(linear(inputs[row : row + 1])[0], outputs[row])


def test_what_the_kernels_do_not_take_is_torchs(library: KernelLibrary) -> None:
    weight, inputs = torch.randn(5, 7), torch.randn(3, 7)
    product = NativeMethod(library)(weight, None)
    torch.testing.assert_close(product(inputs), inputs @ weight.T)
