"""Quantised weights as the file has them stand for the very numbers that decoding gives."""

from pathlib import Path

import pytest
import torch

from srt.configs.load import load_model_config
from srt.distributed.rank import RankInfo
from srt.model_loader.gguf_quantized import quantized_weights
from srt.model_loader.gguf_stream import gguf_weights
from srt.models.llama import CausalModel
from srt.util.quantized_weight import stack
from tests.fakes.tiny_gguf import write_gguf, write_quantized_gguf


@pytest.mark.parametrize("type_name", ["Q4_0", "Q4_1", "Q8_0"])
def test_they_are_what_decoding_gives_in_every_rank(tmp_path: Path, type_name: str) -> None:
    path = write_quantized_gguf(tmp_path / "model.gguf", type_name)
    config = load_model_config(path)
    decoded = dict(gguf_weights(path, torch.float32))
    slices = CausalModel.slices(config, RankInfo(1, 2))
    quantized = quantized_weights(slices, config)
    assert len(quantized) >= 7, "only what cuts a group may be missing"
    for name, weight in quantized.items():
        assert torch.equal(weight.dense(), slices[name].of(decoded[name])), name


def test_a_cut_through_a_group_gives_nothing(tmp_path: Path) -> None:
    path = write_quantized_gguf(tmp_path / "model.gguf", "Q4_1")
    config = load_model_config(path)
    # Two ranks get 16 of the 32 inputs each.
    wanted = CausalModel.slices(config, RankInfo(0, 2))
    name = "model.layers.0.self_attn.o_proj.weight"
    assert name in wanted
    assert name not in quantized_weights(wanted, config)


def test_other_types_and_files_have_none(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "model.gguf")
    config = load_model_config(path)
    assert quantized_weights(CausalModel.slices(config, RankInfo(0, 1)), config) == {}


def test_weights_of_two_kinds_do_not_stack(tmp_path: Path) -> None:
    weights = []
    for type_name in ("Q4_1", "Q8_0"):
        config = load_model_config(write_quantized_gguf(tmp_path / f"{type_name}.gguf", type_name))
        found = quantized_weights(CausalModel.slices(config, RankInfo(0, 1)), config)
        weights.append(found["model.layers.0.mlp.up_proj.weight"])
    assert stack(weights) is None
    both = stack([weights[0], weights[0]])
    assert both is not None
    assert torch.equal(both.dense(), torch.cat([weights[0].dense()] * 2))
