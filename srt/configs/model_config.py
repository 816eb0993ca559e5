"""`ModelConfig`: the model's shape and special tokens, frozen, from any supported checkpoint.

Says what the checkpoint is; what we do with it is decided in srt/runtime_plan/.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from srt.configs.rope_config import RopeConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConfig:
    """A decoder-only transformer. Lengths are in tokens."""

    path: Path  # a Hugging Face folder, or a .gguf file
    checkpoint_format: Literal["safetensors", "gguf"]
    architecture: str  # "LlamaForCausalLM"
    model_type: str  # "llama": the module in srt/models
    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    rms_norm_eps: float
    rope: RopeConfig
    max_position: int  # the longest sequence the checkpoint vouches for, rope scaling included
    layer_windows: tuple[int | None, ...]  # sliding window of each layer; None attends to everything
    tie_word_embeddings: bool
    qkv_bias: bool
    attention_out_bias: bool
    mlp_bias: bool
    qk_norm: bool
    hidden_act: str
    dtype: Literal["float32", "float16", "bfloat16"]  # of the weights, before --dtype
    bos_token_id: int | None
    eos_token_ids: tuple[int, ...]  # config, generation_config and tokenizer together
    default_sampling: dict[str, float | int] = field(default_factory=dict)  # generation_config
