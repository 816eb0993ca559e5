"""The model classes that are supported, and what each leaves unsaid in its config.json.

Hugging Face's configuration classes fill in defaults that a checkpoint may omit; these are those defaults.
srt/models/registry.py has a module for every `model_type` here.
"""

from dataclasses import dataclass
from typing import Literal

from srt.errors import StartupError

SlidingRule = Literal["none", "all_layers", "upper_layers"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """One class of models, as its reference implementation behaves."""

    model_type: str
    max_position: int
    head_dim: int | None = None  # None: hidden size shared among the heads
    num_kv_heads: int | None = None  # None: as many as query heads
    qkv_bias: bool | None = None  # None: attention_bias decides, for the output too
    has_mlp_bias_key: bool = False
    qk_norm: bool = False
    sliding: SlidingRule = "none"


ARCHITECTURES = {
    "LlamaForCausalLM": Architecture(model_type="llama", max_position=2048, has_mlp_bias_key=True),
    "MistralForCausalLM": Architecture(
        model_type="mistral", max_position=131072, num_kv_heads=8, qkv_bias=False, sliding="all_layers"
    ),
    "Qwen2ForCausalLM": Architecture(
        model_type="qwen2", max_position=32768, num_kv_heads=32, qkv_bias=True, sliding="upper_layers"
    ),
    "Qwen3ForCausalLM": Architecture(
        model_type="qwen3",
        max_position=32768,
        head_dim=128,
        num_kv_heads=32,
        qk_norm=True,
        sliding="upper_layers",
    ),
}


def find_architecture(name: str) -> Architecture:
    """The named class. Raises StartupError that lists the supported ones."""
    architecture = ARCHITECTURES.get(name)
    if architecture is None:
        supported = ", ".join(ARCHITECTURES)
        raise StartupError(f"models of class {name} are not supported, only {supported}")
    return architecture
