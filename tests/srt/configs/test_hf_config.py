"""config.json, in every spelling that is understood, and one sentence for each that is not."""

import json
from pathlib import Path
from typing import Any

import pytest

from srt.configs.hf_config import load_hf_config
from srt.configs.load import load_model_config
from srt.configs.model_config import ModelConfig
from srt.errors import StartupError

BASE: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "vocab_size": 100,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "max_position_embeddings": 1000,
}


def read(folder: Path, **settings: Any) -> ModelConfig:
    """The configuration BASE with `settings` over it; None removes a key."""
    values = {key: value for key, value in {**BASE, **settings}.items() if value is not None}
    (folder / "config.json").write_text(json.dumps(values))
    return load_hf_config(folder)


def qwen2(**settings: Any) -> dict[str, Any]:
    return {"architectures": ["Qwen2ForCausalLM"], **settings}


def test_what_a_checkpoint_omits_is_filled_in(tmp_path: Path) -> None:
    config = read(tmp_path, num_key_value_heads=None, max_position_embeddings=None)
    assert config.num_kv_heads == 8
    assert config.head_dim == 8
    assert config.max_position == 2048
    assert config.rms_norm_eps == 1e-6
    assert config.rope.theta == 10000.0
    assert config.rope.rotary_dim == 8
    assert config.dtype == "float32"
    assert config.eos_token_ids == ()
    assert not config.tie_word_embeddings


def test_each_architecture_has_its_own_biases_and_norms(tmp_path: Path) -> None:
    def options(architecture: str, **settings: Any) -> tuple[bool, bool, bool, bool]:
        config = read(tmp_path, architectures=[architecture], **settings)
        return config.qkv_bias, config.attention_out_bias, config.mlp_bias, config.qk_norm

    both = {"attention_bias": True, "mlp_bias": True}
    assert options("LlamaForCausalLM") == (False, False, False, False)
    assert options("LlamaForCausalLM", **both) == (True, True, True, False)
    assert options("MistralForCausalLM", **both) == (False, False, False, False)
    assert options("Qwen2ForCausalLM") == (True, False, False, False)
    assert options("Qwen3ForCausalLM", **both) == (True, True, False, True)


def test_qwen3_heads_are_128_long_unless_said_otherwise(tmp_path: Path) -> None:
    assert read(tmp_path, architectures=["Qwen3ForCausalLM"]).head_dim == 128
    assert read(tmp_path, architectures=["Qwen3ForCausalLM"], head_dim=16).head_dim == 16


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"sliding_window": 9}, (None,) * 4),  # Llama has none
        ({"architectures": ["MistralForCausalLM"], "sliding_window": 9}, (9,) * 4),
        ({"architectures": ["MistralForCausalLM"], "sliding_window": None}, (None,) * 4),
        (qwen2(sliding_window=9, max_window_layers=1), (None,) * 4),
        (qwen2(sliding_window=9, max_window_layers=1, use_sliding_window=True), (None, 9, 9, 9)),
        (
            qwen2(
                sliding_window=9,
                use_sliding_window=True,
                layer_types=["full_attention", "sliding_attention"] * 2,
            ),
            (None, 9) * 2,
        ),
    ],
)
def test_sliding_windows(settings: dict[str, Any], expected: tuple[int | None, ...], tmp_path: Path) -> None:
    assert read(tmp_path, **settings).layer_windows == expected


@pytest.mark.parametrize(
    ("scaling", "expected"),
    [
        ({"type": "linear", "factor": 2.0}, 2000),
        ({"type": "dynamic", "factor": 3.0}, 3000),
        ({"rope_type": "llama3", "factor": 8.0, "original_max_position_embeddings": 500}, 1000),
        ({"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 250}, 1000),
        ({"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1000}, 4000),
    ],
)
def test_the_longest_sequence_includes_the_scaling(
    scaling: dict[str, Any], expected: int, tmp_path: Path
) -> None:
    assert read(tmp_path, rope_scaling=scaling).max_position == expected


def test_an_empty_rope_scaling_is_none(tmp_path: Path) -> None:
    assert read(tmp_path, rope_scaling={}, rope_theta=7.0).rope.kind == "default"


def test_partial_rotation_is_read_in_both_places(tmp_path: Path) -> None:
    assert read(tmp_path, partial_rotary_factor=0.5).rope.rotary_dim == 4
    parameters = {"rope_type": "default", "rope_theta": 5.0, "partial_rotary_factor": 0.5}
    assert read(tmp_path, rope_parameters=parameters).rope.rotary_dim == 4


def test_end_tokens_come_from_every_place_that_names_one(tmp_path: Path) -> None:
    (tmp_path / "generation_config.json").write_text(json.dumps({"eos_token_id": [2, 7]}))
    tokenizer = {"eos_token": "<end>", "added_tokens_decoder": {"9": {"content": "<end>"}}}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(tokenizer))
    assert read(tmp_path, eos_token_id=2).eos_token_ids == (2, 7, 9)


def test_the_tokenizers_end_token_is_looked_up_in_its_file(tmp_path: Path) -> None:
    tokenizer_config = {"eos_token": {"content": "<end>"}}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(tokenizer_config))
    tokenizer = {"added_tokens": [{"id": 4, "content": "<start>"}, {"id": 5, "content": "<end>"}]}
    (tmp_path / "tokenizer.json").write_text(json.dumps(tokenizer))
    assert read(tmp_path).eos_token_ids == (5,)


def test_sampling_defaults_are_the_generation_configs(tmp_path: Path) -> None:
    generation = {"temperature": 0.6, "top_k": 20, "do_sample": True, "top_p": None, "max_length": 5}
    (tmp_path / "generation_config.json").write_text(json.dumps(generation))
    assert read(tmp_path).default_sampling == {"temperature": 0.6, "top_k": 20}


@pytest.mark.parametrize("key", ["dtype", "torch_dtype"])
def test_both_spellings_of_the_dtype_are_read(key: str, tmp_path: Path) -> None:
    assert read(tmp_path, **{key: "bfloat16"}).dtype == "bfloat16"


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (
            {"architectures": ["FalconForCausalLM"]},
            "models of class FalconForCausalLM are not supported, only LlamaForCausalLM, MistralForCausalLM, ",
        ),
        ({"architectures": None}, "architectures names no model class"),
        ({"hidden_size": None}, "hidden_size is missing"),
        ({"hidden_size": "64"}, "hidden_size must be a whole number, not '64'"),
        ({"num_hidden_layers": 0}, "num_hidden_layers must be at least 1, not 0"),
        ({"num_key_value_heads": 3}, "num_attention_heads 8 is no multiple of num_key_value_heads 3"),
        ({"hidden_size": 60}, "hidden_size 60 is no multiple of num_attention_heads 8"),
        ({"quantization_config": {"quant_method": "awq"}}, r"the weights are quantised \(awq\)"),
        ({"hidden_act": "gelu"}, "hidden_act gelu is not supported, only silu"),
        ({"dtype": "float8_e4m3fn"}, "weights in float8_e4m3fn are not supported"),
        ({"rope_scaling": {"type": "longrope"}}, "rope scaling longrope is not supported, only default, "),
        ({"rope_scaling": {"type": "linear"}}, "factor is missing"),
        ({"rope_scaling": {"type": "linear", "factor": -1.0}}, "a rope factor of -1.0 makes no sense"),
        ({"rope_parameters": {"full_attention": {}}}, "differ between layers are not supported"),
        (
            qwen2(use_sliding_window=True, sliding_window=5, layer_types=["full_attention"]),
            "layer_types must name the kind of each of the 4 layers",
        ),
    ],
)
def test_what_is_not_understood_is_refused_in_one_sentence(
    settings: dict[str, Any], sentence: str, tmp_path: Path
) -> None:
    with pytest.raises(StartupError, match=sentence):
        read(tmp_path, **settings)


def test_a_folder_without_config_is_named(tmp_path: Path) -> None:
    with pytest.raises(StartupError, match=r"config\.json does not exist"):
        load_model_config(tmp_path)


def test_a_config_that_is_no_json_is_named(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(StartupError, match=r"config\.json is not valid JSON"):
        load_model_config(tmp_path)


def test_a_missing_checkpoint_is_named(tmp_path: Path) -> None:
    with pytest.raises(StartupError, match=r"there is no checkpoint at .*nowhere"):
        load_model_config(tmp_path / "nowhere")


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.bin"
    path.write_bytes(b"")
    with pytest.raises(StartupError, match=r"model\.bin is neither"):
        load_model_config(path)
