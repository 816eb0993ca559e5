"""Matrices quantised while they are loaded."""

from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from srt.configs.load import load_model_config
from srt.distributed.rank import RankInfo
from srt.model_loader.load import load_weights
from srt.model_loader.quantize import QUANTIZERS
from srt.model_loader.shard import Weight, dense
from srt.models.llama import CausalModel
from srt.util.quantized_weight import GROUP, QuantizedWeight
from tests.fakes.tiny_checkpoint import write_tiny_checkpoint

SIZES = {"hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4, "num_key_value_heads": 2}


@pytest.mark.parametrize(("quantization", "num_steps"), [("int8", 254), ("int4", 15)])
@settings(max_examples=30)
@given(
    shape=st.tuples(st.integers(1, 5), st.integers(1, 4)),
    size=st.sampled_from([1e-7, 1e-3, 1.0, 100.0]),
    shift=st.sampled_from([-3.0, 0.0, 3.0]),
    seed=st.integers(0, 1000),
)
def test_no_value_moves_by_more_than_half_a_step(
    quantization: str, num_steps: int, shape: tuple[int, int], size: float, shift: float, seed: int
) -> None:
    random = torch.Generator().manual_seed(seed)
    weight = (torch.randn(shape[0], shape[1] * GROUP, generator=random) + shift) * size
    weight[0, :GROUP] = 0
    error = (QUANTIZERS[quantization](weight).dense() - weight).abs().view(shape[0], -1, GROUP)
    groups = weight.view(shape[0], -1, GROUP)
    width = 2 * groups.abs().amax(-1) if quantization == "int8" else groups.amax(-1) - groups.amin(-1)
    # Scales and minimums are float16.
    allowed = width / num_steps * 0.51 + groups.abs().amax(-1) * 2**-10 + 2**-20
    assert (error.amax(-1) <= allowed).all()


def load(path: Path, rank: RankInfo, quantization: str) -> dict[str, Weight]:
    config = load_model_config(path)
    return load_weights(
        CausalModel.slices(config, rank),
        config=config,
        load_format="auto",
        seed=0,
        dtype=torch.bfloat16,
        device="cpu",
        quantization=quantization,
    )


@pytest.mark.parametrize("quantization", ["int8", "int4"])
def test_ranks_have_parts_of_the_same_numbers(tmp_path: Path, quantization: str) -> None:
    write_tiny_checkpoint(tmp_path, **SIZES)
    whole = load(tmp_path, RankInfo(0, 1), quantization)
    config = load_model_config(tmp_path)
    for rank in (RankInfo(0, 2), RankInfo(1, 2)):
        slices = CausalModel.slices(config, rank)
        parts = load(tmp_path, rank, quantization)
        assert isinstance(parts["model.layers.0.mlp.down_proj.weight"], QuantizedWeight)
        for name, part in parts.items():
            if isinstance(part, QuantizedWeight):
                assert torch.equal(
                    dense(part, torch.float32), slices[name].of(dense(whole[name], torch.float32))
                ), name


def test_no_rank_quantises_its_part_of_what_one_alone_would_not(tmp_path: Path) -> None:
    write_tiny_checkpoint(tmp_path)  # of whose 48 columns for six heads the first of two ranks has 32
    for rank in (RankInfo(0, 1), RankInfo(0, 2), RankInfo(1, 2)):
        weights = load(tmp_path, rank, "int4")
        assert not any(isinstance(weight, QuantizedWeight) for weight in weights.values())


def test_embedding_and_head_are_never_of_four_bits(tmp_path: Path) -> None:
    write_tiny_checkpoint(tmp_path, **SIZES)
    weights = load(tmp_path, RankInfo(0, 1), "int4")
    formats = {
        name: weight.format.bits for name, weight in weights.items() if isinstance(weight, QuantizedWeight)
    }
    assert formats.pop("model.embed_tokens.weight") == 8
    assert formats.pop("lm_head.weight") == 8
    assert set(formats.values()) == {4}
