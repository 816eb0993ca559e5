import math
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest

from srt.configs.checkpoint import find_model
from srt.configs.gguf_config import llama3_factors, load_gguf_config
from srt.configs.model_config import ModelConfig
from srt.configs.rope_config import RopeConfig
from srt.errors import StartupError
from tests.fakes.tiny_gguf import HEAD_DIM, HIDDEN, Floats, tiny_tensors, write_gguf


def config_of(
    folder: Path, arch: str = "llama", tensors: dict[str, Floats] | None = None, **metadata: Any
) -> ModelConfig:
    """Underscores of a keyword stand for dots behind the architecture's name."""
    named = {f"{arch}.{key.replace('__', '.')}": value for key, value in metadata.items()}
    return load_gguf_config(
        write_gguf(folder / "a.gguf", arch=arch, metadata=named, tensors=tiny_tensors() | (tensors or {}))
    )


def test_the_default_model_is_what_its_authors_published() -> None:
    config = load_gguf_config(find_model(None))
    assert (config.architecture, config.model_type, config.checkpoint_format) == (
        "LlamaForCausalLM",
        "llama",
        "gguf",
    )
    assert (config.vocab_size, config.hidden_size, config.intermediate_size) == (49152, 576, 1536)
    assert (config.num_layers, config.num_heads, config.num_kv_heads, config.head_dim) == (30, 9, 3, 64)
    assert config.rope == RopeConfig(theta=100000.0, rotary_dim=64)
    assert config.max_position == 8192
    assert config.rms_norm_eps == pytest.approx(1e-5)
    assert config.tie_word_embeddings
    assert (config.qkv_bias, config.attention_out_bias, config.mlp_bias, config.qk_norm) == (False,) * 4
    assert (config.bos_token_id, config.eos_token_ids) == (1, (2,))
    assert config.layer_windows == (None,) * 30


@pytest.mark.parametrize(
    ("arch", "architecture"),
    [("llama", "LlamaForCausalLM"), ("qwen2", "Qwen2ForCausalLM"), ("qwen3", "Qwen3ForCausalLM")],
)
def test_the_three_architectures_are_told_apart(tmp_path: Path, arch: str, architecture: str) -> None:
    config = config_of(tmp_path, arch)
    assert (config.model_type, config.architecture) == (arch, architecture)


def test_what_the_tensors_say_is_taken_from_them(tmp_path: Path) -> None:
    config = config_of(
        tmp_path,
        tensors={
            "output.weight": np.zeros((96, HIDDEN), np.float32),
            "blk.0.attn_q.bias": np.zeros(HIDDEN, np.float32),
            "blk.0.attn_q_norm.weight": np.zeros(HEAD_DIM, np.float32),
        },
    )
    assert (config.tie_word_embeddings, config.qkv_bias, config.qk_norm) == (False, True, True)


def test_a_head_length_of_its_own_is_kept(tmp_path: Path) -> None:
    config = config_of(tmp_path, "qwen3", attention__key_length=16, attention__value_length=16)
    assert (config.head_dim, config.rope.rotary_dim) == (16, 16)


def test_every_end_token_of_the_file_counts(tmp_path: Path) -> None:
    path = write_gguf(
        tmp_path / "a.gguf",
        metadata={
            "tokenizer.ggml.eos_token_id": 7,
            "tokenizer.ggml.eot_token_id": 9,
            "tokenizer.ggml.eom_token_id": 7,
        },
    )
    assert load_gguf_config(path).eos_token_ids == (7, 9)


def test_no_special_tokens_is_no_error(tmp_path: Path) -> None:
    path = write_gguf(
        tmp_path / "a.gguf",
        metadata={"tokenizer.ggml.eos_token_id": None, "tokenizer.ggml.bos_token_id": None},
    )
    config = load_gguf_config(path)
    assert (config.eos_token_ids, config.bos_token_id) == ((), None)


def test_sampling_defaults_get_our_names(tmp_path: Path) -> None:
    path = write_gguf(
        tmp_path / "a.gguf", metadata={"general.sampling.temp": 0.5, "general.sampling.top_k": 20}
    )
    assert load_gguf_config(path).default_sampling == {"temperature": 0.5, "top_k": 20}


def test_a_sliding_window_holds_for_every_layer(tmp_path: Path) -> None:
    assert config_of(tmp_path, attention__sliding_window=128).layer_windows == (128,)


def test_linear_scaling_stretches_the_length(tmp_path: Path) -> None:
    config = config_of(tmp_path, rope__scaling__type="linear", rope__scaling__factor=4.0)
    assert (config.rope.kind, config.rope.factor, config.max_position) == ("linear", 4.0, 2048)


def test_the_old_spelling_of_linear_scaling_is_understood(tmp_path: Path) -> None:
    config = config_of(tmp_path, rope__scale_linear=2.0)
    assert (config.rope.kind, config.rope.factor, config.max_position) == ("linear", 2.0, 1024)


def test_yarn_keeps_its_settings(tmp_path: Path) -> None:
    config = config_of(
        tmp_path,
        "qwen2",
        rope__scaling__type="yarn",
        rope__scaling__factor=4.0,
        rope__scaling__original_context_length=128,
        rope__scaling__yarn_beta_fast=16.0,
    )
    assert config.rope == RopeConfig(
        theta=10000.0, rotary_dim=8, kind="yarn", factor=4.0, original_max_position=128, beta_fast=16.0
    )
    assert config.max_position == 512


def test_yarns_attention_factor_multiplies_the_usual_one(tmp_path: Path) -> None:
    config = config_of(
        tmp_path, rope__scaling__type="yarn", rope__scaling__factor=4.0, rope__scaling__attn_factor=0.5
    )
    assert config.rope.attention_factor == pytest.approx(0.5 * (1 + 0.1 * math.log(4)))


def test_llama_3_scaling_is_recognised_by_its_tensor(tmp_path: Path) -> None:
    factors = llama3_factors(500000.0, 64, 32.0).astype(np.float32)
    config = config_of(
        tmp_path,
        tensors={"rope_freqs.weight": factors},
        rope__freq_base=500000.0,
        attention__key_length=64,
        attention__value_length=64,
    )
    assert config.rope == RopeConfig(
        theta=500000.0,
        rotary_dim=64,
        kind="llama3",
        factor=32.0,
        original_max_position=8192,
        low_freq_factor=1.0,
        high_freq_factor=4.0,
    )


def test_llama_3_factors_equal_those_of_transformers() -> None:
    from transformers import LlamaConfig
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    rope = {"rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0}
    rope |= {"low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}
    config = LlamaConfig(
        hidden_size=128, num_attention_heads=1, rope_parameters=rope, max_position_embeddings=131072
    )
    scaled, _ = ROPE_INIT_FUNCTIONS["llama3"](config, device="cpu")
    unscaled = 500000.0 ** (-np.arange(0, 128, 2) / 128)
    assert np.allclose(unscaled / scaled.numpy(), llama3_factors(500000.0, 128, 8.0), rtol=1e-5)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"rope__scaling__type": "longrope"}, "rope scaling longrope"),
        ({"expert_count": 8}, "with experts"),
        ({"attention__key_length": 16, "attention__value_length": 8}, "keys and values differ"),
        ({"rope__scaling__type": "yarn", "rope__scaling__factor": 0.0}, "makes no sense"),
        (
            {
                "rope__scaling__type": "yarn",
                "rope__scaling__factor": 2.0,
                "rope__scaling__yarn_log_multiplier": 0.1,
            },
            "log_m",
        ),
        ({"block_count": None}, "block_count"),
    ],
)
def test_what_is_not_understood_is_refused(tmp_path: Path, changes: dict[str, Any], named: str) -> None:
    with pytest.raises(StartupError, match=named):
        config_of(tmp_path, **changes)


def test_unknown_rotary_factors_are_refused(tmp_path: Path) -> None:
    factors = np.linspace(1.0, 9.0, HEAD_DIM // 2, dtype=np.float32)
    with pytest.raises(StartupError, match=r"rope_freqs\.weight is not Llama 3"):
        config_of(tmp_path, tensors={"rope_freqs.weight": factors})


def test_an_unknown_architecture_is_refused_with_those_that_are_known(tmp_path: Path) -> None:
    path = tmp_path / "a.gguf"
    write_gguf(path, arch="mamba")
    with pytest.raises(StartupError, match="architecture mamba is not supported, only llama, qwen2, qwen3"):
        load_gguf_config(path)


def test_the_type_of_the_weights_is_that_of_the_matrices(tmp_path: Path) -> None:
    assert config_of(tmp_path).dtype == "float32"
    half = tiny_tensors()
    embedding = half.pop("token_embd.weight")
    blocks = gguf.quants.quantize(embedding, gguf.GGMLQuantizationType.Q8_0)
    path = write_gguf(
        tmp_path / "b.gguf",
        tensors=half,
        raw_tensors={"token_embd.weight": (blocks, gguf.GGMLQuantizationType.Q8_0)},
    )
    assert load_gguf_config(path).dtype == "bfloat16"
