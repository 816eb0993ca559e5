"""Products with packed weights, against float32."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from srt.layers.native.build import ANY_PROCESSOR, THIS_PROCESSOR, build_library
from srt.layers.native.library import KernelLibrary
from srt.layers.native.linear import PackedMatrix
from srt.layers.native.load import load_library
from srt.util.quantized_weight import FORMATS, GROUP, QuantizedWeight
from tests.fakes.random_weights import random_weight


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
def test_a_product_is_float32s_and_its_rows_stand_alone(
    library: KernelLibrary, num_rows: int, num_outputs: int, num_pairs: int, has_bias: bool, seed: int
) -> None:
    random = torch.Generator().manual_seed(seed)
    weight = torch.randn(num_outputs, 2 * num_pairs, generator=random).bfloat16()
    bias = torch.randn(num_outputs, generator=random).bfloat16() if has_bias else None
    inputs = torch.randn(num_rows, 2 * num_pairs, generator=random).bfloat16()
    matrix = PackedMatrix(library, [weight], bias)
    outputs = matrix.multiply(inputs)
    expected = inputs.double() @ weight.double().T + (0 if bias is None else bias.double())
    torch.testing.assert_close(outputs.double(), expected, rtol=1e-6, atol=1e-5 * num_pairs)
    assert torch.equal(matrix.multiply(inputs[-1:]), outputs[-1:])
    some = torch.randint(num_outputs, (5,), generator=random)
    assert torch.equal(matrix.look_up(some), weight[some])


@pytest.mark.parametrize("name", FORMATS)
@settings(max_examples=12)
@given(
    num_rows=st.sampled_from([1, 2, 3, 4, 5, 7, 8, 9, 40, 130]),
    num_outputs=st.integers(1, 150),
    groups=st.tuples(st.integers(0, 20), st.one_of(st.integers(1, 20), st.sampled_from([36, 37, 60]))),
    is_uneven=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_quantised_weights_are_not_rounded_and_inputs_little_and_rows_stand_alone(
    library: KernelLibrary,
    name: str,
    num_rows: int,
    num_outputs: int,
    groups: tuple[int, int],
    is_uneven: bool,
    seed: int,
) -> None:
    random = torch.Generator().manual_seed(seed)
    num_before, num_groups = groups
    # A cut of a wider one: where factors are shared, the first may be so with groups that are not here.
    whole = random_weight(name, num_outputs, (num_before + num_groups) * GROUP, random)
    weight = whole.columns(num_before * GROUP, (num_before + num_groups) * GROUP)
    assert isinstance(weight, QuantizedWeight)
    dense = weight.dense()
    assert torch.equal(dense, whole.dense()[:, num_before * GROUP :])
    inputs = torch.randn(num_rows, num_groups * GROUP, generator=random).bfloat16()
    if is_uneven:  # a few are very large, another one in each row
        inputs[torch.arange(num_rows), torch.randint(num_groups * GROUP, (num_rows,), generator=random)] *= (
            200
        )
    matrix = PackedMatrix(library, [weight], None)

    fits_in_bytes = torch.randint(-127, 128, inputs.shape, generator=random)
    fits_in_bytes[:, ::GROUP] = 127  # a group's scale is a power of two
    fits_in_bytes = (fits_in_bytes * 2.0**-9).bfloat16()
    expected = fits_in_bytes.double() @ dense.double().T
    torch.testing.assert_close(
        matrix.multiply(fits_in_bytes).double(), expected, rtol=1e-6, atol=1e-4 * num_groups
    )

    outputs = matrix.multiply(inputs)
    greatest = inputs.view(num_rows, num_groups, GROUP).abs().amax(dim=-1).double()
    is_large = greatest > 1.501 * greatest.mean(dim=-1, keepdim=True)
    lost = greatest / torch.where(is_large, 254**2, 254)
    most = dense.view(num_outputs, num_groups, GROUP).abs().sum(dim=-1).double()
    difference = (outputs.double() - inputs.double() @ dense.double().T).abs()
    assert bool((difference <= 1.01 * lost @ most.T + 1e-4 * num_groups).all())
    for row in range(num_rows):
        assert torch.equal(matrix.multiply(inputs[row : row + 1])[0], outputs[row])
    some = torch.randint(num_outputs, (5,), generator=random)
    assert torch.equal(matrix.look_up(some), dense[some].bfloat16())


@pytest.mark.parametrize("name", FORMATS)
def test_what_is_not_finite_or_very_small_stays_so_in_its_row(library: KernelLibrary, name: str) -> None:
    random = torch.Generator().manual_seed(0)
    weight = random_weight(name, 60, 96, random)
    inputs = torch.randn(6, 96, generator=random).bfloat16()
    whole = PackedMatrix(library, [weight], None).multiply(inputs)
    for row, value in enumerate((torch.nan, torch.inf, -torch.inf)):
        inputs[row, 40] = value
    inputs[3], inputs[4] = 0, 2.0**-130 * inputs[4]
    outputs = PackedMatrix(library, [weight], None).multiply(inputs)
    assert not bool(outputs[:3].isfinite().any())
    assert not bool(outputs[3].any())
    assert float(outputs[4].abs().max()) < 1e-30
    assert torch.equal(outputs[5], whole[5])


def test_where_a_weight_is_infinite_a_row_still_stands_alone(library: KernelLibrary) -> None:
    random = torch.Generator().manual_seed(0)
    weight = random_weight("Q8_0", 60, 96, random)
    assert isinstance(weight, QuantizedWeight)
    weight.scales.values[::7] = torch.inf
    inputs = torch.randn(6, 96, generator=random).bfloat16()
    inputs[1, 40] = inputs[4, 3] = 200.0  # these lose what is multiplied, too, and the other rows nothing
    matrix = PackedMatrix(library, [weight], None)
    outputs = matrix.multiply(inputs)
    assert bool(outputs.isfinite().any())
    assert bool(outputs.isinf().any())
    for row in range(6):
        alone = matrix.multiply(inputs[row : row + 1])[0]
        torch.testing.assert_close(alone, outputs[row], rtol=0, atol=0, equal_nan=True)


def test_parts_in_unlike_formats_are_one_product(library: KernelLibrary) -> None:
    random = torch.Generator().manual_seed(0)
    weights = [
        random_weight("Q4_K", 50, 512, random),
        torch.randn(70, 512, generator=random).bfloat16(),
        random_weight("Q6_K", 30, 512, random),
        random_weight("Q6_K", 21, 512, random),
    ]
    bias = torch.randn(171, generator=random).bfloat16()
    inputs = torch.randn(11, 512, generator=random).bfloat16()
    apart = [PackedMatrix(library, [weight], None).multiply(inputs) for weight in weights]
    together = PackedMatrix(library, weights, None)
    assert torch.equal(together.multiply(inputs), torch.cat(apart, dim=1))
    with_bias = PackedMatrix(library, weights, bias).multiply(inputs)
    expected = together.multiply(inputs).double() + bias.double()
    torch.testing.assert_close(with_bias.double(), expected, rtol=1e-6, atol=1e-4)


def test_more_threads_than_cores_compute_the_same_bits_again_and_again(library: KernelLibrary) -> None:
    random = torch.Generator().manual_seed(0)
    matrix = PackedMatrix(library, [torch.randn(700, 128, generator=random).bfloat16()], None)
    inputs = torch.randn(130, 128, generator=random).bfloat16()
    expected = matrix.multiply(inputs)
    num_threads = torch.get_num_threads()
    try:
        # Most threads have no core when their turn comes, so others do their pieces, and they find them done.
        torch.set_num_threads(7)
        for _ in range(200):
            assert torch.equal(matrix.multiply(inputs), expected)
    finally:
        torch.set_num_threads(num_threads)
