"""Layers that have a choice of how to compute: each must give what the plain formula gives."""

import pytest
import torch
import torch.nn.functional as F  # noqa: N812

from srt.layers.norm import RMSNorm
from srt.layers.quantization.unquantized import PackedLinear, PlainLinear, prepare_plain
from srt.layers.rotary import Rotation, rotate


@pytest.mark.parametrize("num_rows", [0, 1, 5, 64])
@pytest.mark.parametrize("has_bias", [False, True])
@pytest.mark.parametrize(("dtype", "atol"), [(torch.float32, 1e-5), (torch.bfloat16, 2e-2)])
def test_a_packed_weight_multiplies_like_a_plain_one(
    num_rows: int, has_bias: bool, dtype: torch.dtype, atol: float
) -> None:
    generator = torch.Generator().manual_seed(0)
    weight = (torch.randn(24, 40, generator=generator) / 6).to(dtype)
    bias = torch.randn(24, generator=generator).to(dtype) if has_bias else None
    inputs = torch.randn(num_rows, 40, generator=generator).to(dtype)
    product = prepare_plain(weight, bias)
    with torch.inference_mode():
        torch.testing.assert_close(product(inputs), F.linear(inputs, weight, bias), atol=atol, rtol=1e-2)


def test_weights_are_packed_for_a_cpu_unless_its_kernels_lack_the_type() -> None:
    assert isinstance(prepare_plain(torch.zeros(4, 4), None), PackedLinear)
    assert isinstance(prepare_plain(torch.zeros(4, 4, dtype=torch.float16), None), PlainLinear)


def test_a_norm_is_rounded_once() -> None:
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(50, 64, generator=generator).to(torch.bfloat16)
    weight = torch.randn(64, generator=generator).to(torch.bfloat16)
    wide = inputs.double()
    exact = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5) * weight.double()
    found = RMSNorm(weight, 1e-5)(inputs)
    assert found.dtype == torch.bfloat16
    # Half a unit in the last of 8 bits.
    torch.testing.assert_close(found.double(), exact, rtol=2**-8, atol=0)


def test_values_beyond_the_rotary_ones_stay() -> None:
    vectors = torch.arange(1.0, 7.0).view(1, 1, 6)
    quarter_turn = Rotation(cos=torch.zeros(1, 1, 4), sin=torch.tensor([-1.0, -1.0, 1.0, 1.0]).view(1, 1, 4))
    assert rotate(vectors, quarter_turn).flatten().tolist() == [-3.0, -4.0, 1.0, 2.0, 5.0, 6.0]
