"""Turn a GGUF file's metadata into a `ModelConfig`.

What the tensors themselves say (biases, tied head, q/k norms, vocabulary) is taken from them. Refuses what
it does not understand rather than guessing: a wrong rotary setting gives plausible nonsense.
"""

import math
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt

from srt.configs.gguf_file import GgufFile, read_gguf
from srt.configs.model_config import ModelConfig
from srt.configs.rope_config import RopeConfig
from srt.errors import StartupError

# general.architecture → Hugging Face's class. Mistral's files say "llama".
ARCHITECTURES = {"llama": "LlamaForCausalLM", "qwen2": "Qwen2ForCausalLM", "qwen3": "Qwen3ForCausalLM"}

EOS_KEYS = ("eos_token_id", "eot_token_id", "eom_token_id")
SAMPLING_KEYS = {"temp": "temperature", "top_k": "top_k", "top_p": "top_p", "min_p": "min_p"}

# llama.cpp's converter turns Llama 3's rope scaling into a tensor of factors. These are the settings of every
# Llama that was released with it; the tensor is checked against them.
LLAMA3_LOW_FREQ_FACTOR, LLAMA3_HIGH_FREQ_FACTOR, LLAMA3_ORIGINAL_MAX_POSITION = 1.0, 4.0, 8192
ROPE_FACTORS_TENSOR = "rope_freqs.weight"


def load_gguf_config(path: Path) -> ModelConfig:
    """The model's shape, from its header alone. Raises StartupError."""
    return gguf_config(read_gguf(path))


def gguf_config(file: GgufFile) -> ModelConfig:
    """The same, of a file that is already open."""
    arch = file.text("general.architecture")
    if arch not in ARCHITECTURES:
        known = ", ".join(ARCHITECTURES)
        raise StartupError(f"{file.path}: architecture {arch} is not supported, only {known}")
    if file.integer(f"{arch}.expert_count", 0):
        raise StartupError(f"{file.path}: {arch} with experts is not supported")
    hidden_size = file.integer(f"{arch}.embedding_length")
    num_layers = file.integer(f"{arch}.block_count")
    num_heads = file.integer(f"{arch}.attention.head_count")
    if num_heads < 1:
        raise StartupError(f"{file.path}: {arch}.attention.head_count is {num_heads}")
    head_dim = file.integer(f"{arch}.attention.key_length", hidden_size // num_heads)
    if file.integer(f"{arch}.attention.value_length", head_dim) != head_dim:
        raise StartupError(f"{file.path}: heads whose keys and values differ in length are not supported")
    window = file.integer(f"{arch}.attention.sliding_window", 0) or None
    return ModelConfig(
        path=file.path,
        checkpoint_format="gguf",
        architecture=ARCHITECTURES[arch],
        model_type=arch,
        vocab_size=_tensor_shape(file, "token_embd.weight")[0],
        hidden_size=hidden_size,
        intermediate_size=file.integer(f"{arch}.feed_forward_length"),
        num_layers=num_layers,
        num_heads=num_heads,
        num_kv_heads=file.integer(f"{arch}.attention.head_count_kv", num_heads),
        head_dim=head_dim,
        rms_norm_eps=file.number(f"{arch}.attention.layer_norm_rms_epsilon"),
        rope=_rope(file, arch, head_dim),
        max_position=_max_position(file, arch),
        layer_windows=(window,) * num_layers,
        tie_word_embeddings="output.weight" not in file.tensors,
        qkv_bias="blk.0.attn_q.bias" in file.tensors,
        attention_out_bias="blk.0.attn_output.bias" in file.tensors,
        mlp_bias="blk.0.ffn_gate.bias" in file.tensors,
        qk_norm="blk.0.attn_q_norm.weight" in file.tensors,
        hidden_act="silu",
        dtype=_dtype(file),
        bos_token_id=_token_id(file, "bos_token_id"),
        eos_token_ids=_eos_token_ids(file),
        default_sampling=_default_sampling(file),
    )


def _tensor_shape(file: GgufFile, name: str) -> tuple[int, ...]:
    tensor = file.tensors.get(name)
    if tensor is None:
        raise StartupError(f"{file.path} lacks the tensor {name}")
    return tensor.shape


def _dtype(file: GgufFile) -> Literal["float32", "float16", "bfloat16"]:
    """Of the weight matrices. Quantised ones carry about as many bits as bfloat16."""
    match file.tensors["token_embd.weight"].type.name:
        case "F32":
            return "float32"
        case "F16":
            return "float16"
        case _:
            return "bfloat16"


def _token_id(file: GgufFile, name: str) -> int | None:
    key = f"tokenizer.ggml.{name}"
    return file.integer(key) if key in file.metadata else None


def _eos_token_ids(file: GgufFile) -> tuple[int, ...]:
    ids = [_token_id(file, name) for name in EOS_KEYS]
    return tuple(dict.fromkeys(token_id for token_id in ids if token_id is not None))


def _default_sampling(file: GgufFile) -> dict[str, float | int]:
    found = {ours: file.metadata.get(f"general.sampling.{theirs}") for theirs, ours in SAMPLING_KEYS.items()}
    return {name: value for name, value in found.items() if value is not None}


def _scaling_kind(file: GgufFile, arch: str) -> str:
    if file.number(f"{arch}.rope.scale_linear", 1.0) != 1.0:  # the oldest spelling
        return "linear"
    return file.text(f"{arch}.rope.scaling.type", "none")


def _max_position(file: GgufFile, arch: str) -> int:
    length = file.integer(f"{arch}.context_length")
    # With an original length beside it, context_length already includes the scaling.
    if _scaling_kind(file, arch) == "none" or f"{arch}.rope.scaling.original_context_length" in file.metadata:
        return length
    return int(length * _scaling_factor(file, arch))


def _scaling_factor(file: GgufFile, arch: str) -> float:
    return file.number(f"{arch}.rope.scaling.factor", file.number(f"{arch}.rope.scale_linear", 1.0))


def _rope(file: GgufFile, arch: str, head_dim: int) -> RopeConfig:
    theta = file.number(f"{arch}.rope.freq_base", 10000.0)
    rotary_dim = file.integer(f"{arch}.rope.dimension_count", head_dim)
    kind = _scaling_kind(file, arch)
    if ROPE_FACTORS_TENSOR in file.tensors:
        if kind != "none":
            raise StartupError(
                f"{file.path}: {ROPE_FACTORS_TENSOR} beside rope scaling {kind} is not supported"
            )
        return _llama3_rope(file, theta, rotary_dim)
    factor = _scaling_factor(file, arch)
    if kind != "none" and factor <= 0.0:
        raise StartupError(f"{file.path}: rope scaling by {factor} makes no sense")
    match kind:
        case "none":
            return RopeConfig(theta=theta, rotary_dim=rotary_dim)
        case "linear":
            return RopeConfig(theta=theta, rotary_dim=rotary_dim, kind="linear", factor=factor)
        case "yarn":
            return _yarn_rope(file, arch, theta, rotary_dim, factor)
        case _:
            raise StartupError(f"{file.path}: rope scaling {kind} is not supported, only linear and yarn")


def _yarn_rope(file: GgufFile, arch: str, theta: float, rotary_dim: int, factor: float) -> RopeConfig:
    prefix = f"{arch}.rope.scaling"
    if file.number(f"{prefix}.yarn_log_multiplier", 0.0) != 0.0:
        raise StartupError(f"{file.path}: {prefix}.yarn_log_multiplier is not supported")
    multiplier = file.number(f"{prefix}.attn_factor", 1.0)
    # The file's factor multiplies YaRN's own attention factor; ours replaces it.
    attention_factor = None if multiplier == 1.0 else multiplier * (1.0 + 0.1 * math.log(factor))
    original = file.integer(f"{prefix}.original_context_length", file.integer(f"{arch}.context_length"))
    return RopeConfig(
        theta=theta,
        rotary_dim=rotary_dim,
        kind="yarn",
        factor=factor,
        original_max_position=original,
        beta_fast=file.number(f"{prefix}.yarn_beta_fast", 32.0),
        beta_slow=file.number(f"{prefix}.yarn_beta_slow", 1.0),
        attention_factor=attention_factor,
    )


def _llama3_rope(file: GgufFile, theta: float, rotary_dim: int) -> RopeConfig:
    """Recognise Llama 3's scaling by its tensor of factors."""
    tensor = file.tensors[ROPE_FACTORS_TENSOR]
    if tensor.type.name != "F32":
        raise StartupError(f"{file.path}: {ROPE_FACTORS_TENSOR} has type {tensor.type.name}, not F32")
    factors = np.frombuffer(tensor.data, "<f4")
    factor = float(factors.max(initial=1.0))
    expected = llama3_factors(theta, rotary_dim, factor)
    if factors.shape != expected.shape or not np.allclose(factors, expected, rtol=1e-3):
        raise StartupError(
            f"{file.path}: {ROPE_FACTORS_TENSOR} is not Llama 3's rope scaling, which is not supported"
        )
    return RopeConfig(
        theta=theta,
        rotary_dim=rotary_dim,
        kind="llama3",
        factor=factor,
        original_max_position=LLAMA3_ORIGINAL_MAX_POSITION,
        low_freq_factor=LLAMA3_LOW_FREQ_FACTOR,
        high_freq_factor=LLAMA3_HIGH_FREQ_FACTOR,
    )


def llama3_factors(theta: float, rotary_dim: int, factor: float) -> npt.NDArray[np.float64]:
    """What each rotary frequency is divided by: 1 for short waves, `factor` for long ones, smooth between."""
    low, high = LLAMA3_LOW_FREQ_FACTOR, LLAMA3_HIGH_FREQ_FACTOR
    wavelengths = 2.0 * math.pi * theta ** (np.arange(0, rotary_dim, 2, dtype=np.float64) / rotary_dim)
    smooth = np.clip((LLAMA3_ORIGINAL_MAX_POSITION / wavelengths - low) / (high - low), 0.0, 1.0)
    return 1.0 / ((1.0 - smooth) / factor + smooth)
