"""Quantised weights as the file has them stand for the very numbers that decoding gives."""

from pathlib import Path

import gguf
import numpy as np
import pytest
import torch

from srt.configs.load import load_model_config
from srt.distributed.rank import RankInfo
from srt.model_loader.load import load_weights
from srt.model_loader.shard import Weight
from srt.models.llama import CausalModel
from srt.util.quantized_weight import FORMATS, QuantizedWeight
from tests.fakes.decoded_weights import decoded_weights
from tests.fakes.tiny_gguf import tiny_tensors, write_gguf, write_quantized_gguf

DOWN = "model.layers.0.mlp.down_proj.weight"


def load(path: Path, rank: RankInfo, quantization: str = "stored") -> dict[str, Weight]:
    config = load_model_config(path)
    slices = CausalModel.slices(config, rank)
    return load_weights(
        slices,
        config=config,
        load_format="auto",
        seed=0,
        dtype=torch.float32,
        device="cpu",
        quantization=quantization,
    )


@pytest.mark.parametrize("type_name", ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0"])
def test_they_are_what_decoding_gives_in_every_rank(tmp_path: Path, type_name: str) -> None:
    path = write_quantized_gguf(tmp_path / "model.gguf", type_name)
    decoded = dict(decoded_weights(path, torch.float32))
    slices = CausalModel.slices(load_model_config(path), RankInfo(1, 2))
    found = load(path, RankInfo(1, 2))
    quantized = {name: weight for name, weight in found.items() if isinstance(weight, QuantizedWeight)}
    assert len(quantized) >= 7, "only what cuts a group may be missing"
    for name, weight in quantized.items():
        assert torch.equal(weight.dense(), slices[name].of(decoded[name])), name


@pytest.mark.parametrize("type_name", ["Q4_K", "Q5_K", "Q6_K"])
def test_so_they_are_in_the_k_formats_wherever_ranks_cut(tmp_path: Path, type_name: str) -> None:
    tensor_type = gguf.GGMLQuantizationType[type_name]
    tensors = tiny_tensors(mlp=512)
    del tensors["blk.0.ffn_down.weight"]
    # Bytes below 0x70 make no float16 that is not a number.
    num_bytes = 2 * gguf.GGML_QUANT_SIZES[tensor_type][1]
    blocks = np.random.default_rng(0).integers(0, 0x70, (32, num_bytes), dtype=np.uint8)
    path = write_gguf(
        tmp_path / "model.gguf",
        metadata={"llama.feed_forward_length": 512},
        tensors=tensors,
        raw_tensors={"blk.0.ffn_down.weight": (blocks, tensor_type)},
    )
    whole = dict(decoded_weights(path, torch.float32))[DOWN]
    parts = [load(path, RankInfo(rank, 2))[DOWN] for rank in range(2)]
    # 512 columns, which a third rank would cut inside of 256.
    uneven = CausalModel.slices(load_model_config(path), RankInfo(0, 2))[DOWN]
    assert uneven.span == (0, 256)
    dense = [part.dense() for part in parts if isinstance(part, QuantizedWeight)]
    assert torch.equal(torch.cat(dense, dim=1), whole)


def test_what_cuts_a_group_is_decoded(tmp_path: Path) -> None:
    path = write_quantized_gguf(tmp_path / "model.gguf", "Q4_1")
    # Two ranks get 16 of the 32 inputs each.
    weight = load(path, RankInfo(0, 2))["model.layers.0.self_attn.o_proj.weight"]
    assert isinstance(weight, torch.Tensor)


def test_types_without_such_a_form_are_decoded(tmp_path: Path) -> None:
    tensor_type = gguf.GGMLQuantizationType.IQ4_NL
    tensors = tiny_tensors()
    blocks = np.random.default_rng(0).integers(0, 0x70, (32, 2 * 18), dtype=np.uint8)
    del tensors["blk.0.ffn_down.weight"]
    path = write_gguf(
        tmp_path / "model.gguf", tensors=tensors, raw_tensors={"blk.0.ffn_down.weight": (blocks, tensor_type)}
    )
    weights = load(path, RankInfo(0, 1))
    assert all(isinstance(weight, torch.Tensor) for weight in weights.values())
    assert np.array_equal(weights[DOWN], gguf.quants.dequantize(blocks, tensor_type))


def test_nothing_is_kept_unless_asked_for(tmp_path: Path) -> None:
    path = write_quantized_gguf(tmp_path / "model.gguf", "Q4_1")
    found = load(path, RankInfo(0, 1), quantization="none").values()
    assert all(isinstance(weight, torch.Tensor) for weight in found)


def test_every_format_that_a_file_may_have_is_read() -> None:
    assert set(FORMATS) == {"Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q4_K", "Q5_K", "Q6_K"}
