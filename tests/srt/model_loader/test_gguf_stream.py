from pathlib import Path

import gguf
import numpy as np
import pytest
import torch
import transformers
from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint

from srt.configs.checkpoint import find_model
from srt.errors import StartupError
from srt.model_loader.gguf_stream import hf_name
from tests.fakes.decoded_weights import decoded_weights
from tests.fakes.tiny_gguf import HEAD_DIM, HEADS, HIDDEN, Floats, tiny_tensors, write_gguf


def as_llama_cpp_stores(rows: Floats, num_heads: int) -> Floats:
    """What its converter does to query and key rows: halves of a head become neighbours."""
    halves = rows.reshape(num_heads, 2, rows.shape[0] // num_heads // 2, *rows.shape[1:])
    return halves.swapaxes(1, 2).reshape(rows.shape)


def test_the_default_models_weights_equal_those_that_transformers_reads() -> None:
    path = find_model(None)
    with torch.device("meta"):  # only for its names
        model = transformers.LlamaForCausalLM(transformers.LlamaConfig(num_hidden_layers=30))
    reference = load_gguf_checkpoint(str(path), return_tensors=True, model_to_load=model)["tensors"]
    names = []
    for name, tensor in decoded_weights(path, torch.float32):
        assert torch.equal(tensor, reference[name]), name
        names.append(name)
    assert sorted(names) == sorted(reference)


@pytest.mark.parametrize(
    ("arch", "config_class"),
    [("llama", "LlamaConfig"), ("qwen2", "Qwen2Config"), ("qwen3", "Qwen3Config")],
)
def test_every_tensor_gets_the_name_that_its_model_has_for_it(arch: str, config_class: str) -> None:
    sizes = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 2, "vocab_size": 32}
    config = getattr(transformers, config_class)(num_attention_heads=2, num_key_value_heads=2, **sizes)
    if arch == "llama":
        config.attention_bias = config.mlp_bias = True
    with torch.device("meta"):
        names = transformers.AutoModelForCausalLM.from_config(config).state_dict()
    reference = gguf.get_tensor_name_map(
        {name: number for number, name in gguf.MODEL_ARCH_NAMES.items()}[arch], config.num_hidden_layers
    )
    for name in names:
        stem, _, kind = name.rpartition(".")
        assert hf_name(f"{reference.get_name(stem)}.{kind}") == name


def test_llamas_query_and_key_rows_are_put_back_in_halves(tmp_path: Path) -> None:
    original = tiny_tensors()
    stored = dict(original)
    stored["blk.0.attn_q.weight"] = as_llama_cpp_stores(original["blk.0.attn_q.weight"], HEADS)
    stored["blk.0.attn_k.weight"] = as_llama_cpp_stores(original["blk.0.attn_k.weight"], 2)
    bias = np.arange(HEADS * HEAD_DIM, dtype=np.float32)
    stored["blk.0.attn_q.bias"] = as_llama_cpp_stores(bias, HEADS)
    found = dict(decoded_weights(write_gguf(tmp_path / "a.gguf", tensors=stored), torch.float32))
    attention = "model.layers.0.self_attn"
    assert np.array_equal(found[f"{attention}.q_proj.weight"], original["blk.0.attn_q.weight"])
    assert np.array_equal(found[f"{attention}.k_proj.weight"], original["blk.0.attn_k.weight"])
    assert np.array_equal(found[f"{attention}.q_proj.bias"], bias)
    assert np.array_equal(found[f"{attention}.v_proj.weight"], original["blk.0.attn_v.weight"])


@pytest.mark.parametrize("arch", ["qwen2", "qwen3"])
def test_qwens_rows_stay_as_they_are(tmp_path: Path, arch: str) -> None:
    found = dict(decoded_weights(write_gguf(tmp_path / "a.gguf", arch=arch), torch.float32))
    assert np.array_equal(
        found["model.layers.0.self_attn.q_proj.weight"], tiny_tensors()["blk.0.attn_q.weight"]
    )


@pytest.mark.parametrize("name", ["Q8_0", "Q4_0", "Q4_1", "BF16", "F16"])
def test_a_file_in_each_type_gives_what_the_reference_decodes(tmp_path: Path, name: str) -> None:
    tensor_type = gguf.GGMLQuantizationType[name]
    tensors = tiny_tensors()
    blocks = gguf.quants.quantize(tensors.pop("blk.0.ffn_up.weight"), tensor_type)
    raw = {"blk.0.ffn_up.weight": (blocks, tensor_type)}
    path = write_gguf(tmp_path / "a.gguf", arch="qwen2", tensors=tensors, raw_tensors=raw)
    found = dict(decoded_weights(path, torch.float32))["model.layers.0.mlp.up_proj.weight"]
    assert np.array_equal(found, gguf.quants.dequantize(blocks, tensor_type))


@pytest.mark.parametrize(("name", "num_bytes"), [("Q4_K", 144), ("Q6_K", 210)])
def test_a_file_in_k_quants_gives_what_the_reference_decodes(
    tmp_path: Path, name: str, num_bytes: int
) -> None:
    tensor_type = gguf.GGMLQuantizationType[name]
    # Bytes below 0x70 make no float16 that is not a number.
    blocks = np.random.default_rng(0).integers(0, 0x70, (3, 2 * num_bytes), dtype=np.uint8)
    path = write_gguf(tmp_path / "a.gguf", raw_tensors={"output.weight": (blocks, tensor_type)})
    found = dict(decoded_weights(path, torch.float32))["lm_head.weight"]
    assert found.shape == (3, 512)
    assert np.array_equal(found, gguf.quants.dequantize(blocks, tensor_type))


def test_weights_are_rounded_once_to_the_type_asked_for(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "a.gguf")
    exact = dict(decoded_weights(path, torch.float32))
    for name, tensor in decoded_weights(path, torch.bfloat16):
        assert torch.equal(tensor, exact[name].to(torch.bfloat16))


def test_tensors_may_be_written_to(tmp_path: Path) -> None:
    for _, tensor in decoded_weights(write_gguf(tmp_path / "a.gguf"), torch.float32):
        tensor.zero_()


def test_rotary_factors_are_no_weights(tmp_path: Path) -> None:
    tensors = tiny_tensors() | {"rope_freqs.weight": np.ones(4, np.float32)}
    found = dict(decoded_weights(write_gguf(tmp_path / "a.gguf", tensors=tensors), torch.float32))
    assert len(found) == len(tiny_tensors())


def test_a_tensor_that_no_model_has_is_named(tmp_path: Path) -> None:
    tensors = {"blk.0.ssm_a.weight": np.ones((2, HIDDEN), np.float32)}
    with pytest.raises(StartupError, match=r"no supported model has: blk\.0\.ssm_a\.weight"):
        list(decoded_weights(write_gguf(tmp_path / "a.gguf", tensors=tensors), torch.float32))


def test_rows_that_the_heads_cannot_share_are_refused(tmp_path: Path) -> None:
    tensors = {"blk.0.attn_q.weight": np.ones((30, HIDDEN), np.float32)}
    with pytest.raises(StartupError, match="30 rows, which 4 heads cannot share"):
        list(decoded_weights(write_gguf(tmp_path / "a.gguf", tensors=tensors), torch.float32))
