"""Turn a Hugging Face folder's config.json into a `ModelConfig`.

Refuses what it does not understand rather than guessing: a wrong window or bias gives plausible nonsense.
"""

from pathlib import Path
from typing import Literal, get_args

from srt.configs.architectures import Architecture, find_architecture
from srt.configs.generation_defaults import read_generation_defaults
from srt.configs.hf_rope import longest_sequence, read_rope
from srt.configs.json_file import JsonObject, read_json, read_json_if_there
from srt.configs.model_config import ModelConfig
from srt.configs.quant_config import refuse_quantisation
from srt.configs.special_tokens import read_bos_token_id, read_eos_token_ids

WeightDtype = Literal["float32", "float16", "bfloat16"]
DTYPES: tuple[WeightDtype, ...] = get_args(WeightDtype)
ACTIVATIONS = ("silu",)


def load_hf_config(folder: Path) -> ModelConfig:
    """The shape of the model in `folder`. Raises StartupError."""
    config = read_json(folder / "config.json")
    generation_config = read_json_if_there(folder / "generation_config.json")
    name = _architecture_name(config)
    architecture = find_architecture(name)
    refuse_quantisation(config)
    num_layers = config.positive("num_hidden_layers")
    num_heads = config.positive("num_attention_heads")
    head_dim = _head_dim(config, architecture, num_heads)
    max_position = config.positive("max_position_embeddings", architecture.max_position)
    rope = read_rope(config, head_dim=head_dim, max_position=max_position)
    has_attention_bias = config.boolean("attention_bias", False)
    own_bias = architecture.qkv_bias
    return ModelConfig(
        path=folder,
        checkpoint_format="safetensors",
        architecture=name,
        model_type=architecture.model_type,
        vocab_size=config.positive("vocab_size"),
        hidden_size=config.positive("hidden_size"),
        intermediate_size=config.positive("intermediate_size"),
        num_layers=num_layers,
        num_heads=num_heads,
        num_kv_heads=_num_kv_heads(config, architecture, num_heads),
        head_dim=head_dim,
        rms_norm_eps=config.number("rms_norm_eps", 1e-6),
        rope=rope,
        max_position=longest_sequence(config, rope, max_position),
        layer_windows=_layer_windows(config, architecture, num_layers),
        tie_word_embeddings=config.boolean("tie_word_embeddings", False),
        qkv_bias=has_attention_bias if own_bias is None else own_bias,
        attention_out_bias=has_attention_bias if own_bias is None else False,
        mlp_bias=architecture.has_mlp_bias_key and config.boolean("mlp_bias", False),
        qk_norm=architecture.qk_norm,
        hidden_act=_activation(config),
        dtype=_dtype(config),
        bos_token_id=read_bos_token_id(config),
        eos_token_ids=read_eos_token_ids(folder, config, generation_config),
        default_sampling=read_generation_defaults(generation_config),
    )


def _architecture_name(config: JsonObject) -> str:
    names = config.values.get("architectures")
    if not isinstance(names, list) or not names or not isinstance(names[0], str):
        raise config.error("architectures names no model class")
    return names[0]


def _head_dim(config: JsonObject, architecture: Architecture, num_heads: int) -> int:
    if config.has("head_dim"):
        return config.positive("head_dim")
    if architecture.head_dim is not None:
        return architecture.head_dim
    hidden_size = config.positive("hidden_size")
    if hidden_size % num_heads:
        raise config.error(f"hidden_size {hidden_size} is no multiple of num_attention_heads {num_heads}")
    return hidden_size // num_heads


def _num_kv_heads(config: JsonObject, architecture: Architecture, num_heads: int) -> int:
    num_kv_heads = config.positive("num_key_value_heads", architecture.num_kv_heads or num_heads)
    if num_heads % num_kv_heads:
        raise config.error(
            f"num_attention_heads {num_heads} is no multiple of num_key_value_heads {num_kv_heads}"
        )
    return num_kv_heads


def _layer_windows(config: JsonObject, architecture: Architecture, num_layers: int) -> tuple[int | None, ...]:
    everything: tuple[int | None, ...] = (None,) * num_layers
    if architecture.sliding == "none" or not config.has("sliding_window"):
        return everything
    window = config.positive("sliding_window")
    if architecture.sliding == "all_layers":
        return (window,) * num_layers
    if not config.boolean("use_sliding_window", False):
        return everything
    if config.has("layer_types"):
        kinds = config.values["layer_types"]
        if not isinstance(kinds, list) or len(kinds) != num_layers:
            raise config.error(f"layer_types must name the kind of each of the {num_layers} layers")
        return tuple(window if kind == "sliding_attention" else None for kind in kinds)
    first = config.integer("max_window_layers", 28)
    return tuple(window if layer >= first else None for layer in range(num_layers))


def _activation(config: JsonObject) -> str:
    name = config.text("hidden_act", "silu")
    if name not in ACTIVATIONS:
        raise config.error(f"hidden_act {name} is not supported, only {', '.join(ACTIVATIONS)}")
    return name


def _dtype(config: JsonObject) -> WeightDtype:
    name = config.text("dtype", config.text("torch_dtype", "float32"))
    for dtype in DTYPES:
        if dtype == name:
            return dtype
    raise config.error(f"weights in {name} are not supported, only {', '.join(DTYPES)}")
