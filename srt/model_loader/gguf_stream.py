"""Yield a GGUF file's tensors under Hugging Face names, to be read one at a time: decoded, or as they are quantised.

Undoes what llama.cpp's converter did to Llama's query and key rows. The file is mapped.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch

from srt.configs.gguf_config import ROPE_FACTORS_TENSOR
from srt.configs.gguf_file import GgufFile, GgufTensor, read_gguf
from srt.errors import StartupError
from srt.model_loader.gguf_blocks import decode
from srt.model_loader.gguf_quantized import quantized_weight
from srt.util.quantized_weight import QuantizedWeight

_OUTSIDE = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
_IN_BLOCK = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_BLOCK_NAME = re.compile(r"blk\.(\d+)\.(.+)\.(weight|bias)")
# Rotary frequencies: the config reads the first, the second repeats it for each layer in old files.
_NO_WEIGHTS = re.compile(rf"{re.escape(ROPE_FACTORS_TENSOR)}|blk\.\d+\.attn_rot_embd(\.weight)?")


@dataclass(frozen=True, slots=True)
class GgufWeight:
    """One weight, not read yet."""

    name: str  # Hugging Face's
    tensor: GgufTensor
    num_interleaved_heads: int  # 0: the rows are in order

    def dense(self) -> torch.Tensor:
        """Decoded to float32."""
        kind = self.tensor.type
        values = decode(kind.name, self.tensor.data, kind.block_size, kind.num_bytes)
        rows = torch.from_numpy(values).view(self.tensor.shape)
        return rows[self._order()] if self.num_interleaved_heads else rows

    def quantized(self) -> QuantizedWeight | None:
        """As it is stored, if it is stored in groups of 32."""
        weight = quantized_weight(self.tensor)
        return weight.rows(self._order()) if weight is not None and self.num_interleaved_heads else weight

    def _order(self) -> torch.Tensor:
        """Of each head's rows: from llama.cpp's (a pair that rotates is side by side) to halves (i with i + d/2)."""
        num_rows, num_heads = self.tensor.shape[0], self.num_interleaved_heads
        if num_rows % (2 * num_heads):
            raise StartupError(
                f"tensor {self.tensor.name} has {num_rows} rows, which {num_heads} heads cannot share"
            )
        return torch.arange(num_rows).view(num_heads, -1, 2).transpose(1, 2).flatten()


def gguf_weights(path: Path) -> Iterator[GgufWeight]:
    """Every weight, in file order. A tied head does not appear.

    Raises StartupError for an unreadable file or a tensor it has no name for.
    """
    file = read_gguf(path)
    num_heads, num_kv_heads = _interleaved_heads(file)
    for tensor in file.tensors.values():
        name = hf_name(tensor.name)
        if name is not None:
            part = tensor.name.split(".")[-2:-1]
            heads = num_heads if part == ["attn_q"] else num_kv_heads if part == ["attn_k"] else 0
            yield GgufWeight(name, tensor, heads)


def hf_name(name: str) -> str | None:
    """Hugging Face's name for a tensor; None for one that is no weight. Raises StartupError if there is none."""
    if _NO_WEIGHTS.fullmatch(name):
        return None
    if match := _BLOCK_NAME.fullmatch(name):
        layer, part, kind = match.groups()
        if part in _IN_BLOCK:
            return f"model.layers.{layer}.{_IN_BLOCK[part]}.{kind}"
    else:
        part, _, kind = name.rpartition(".")
        if part in _OUTSIDE and kind in ("weight", "bias"):
            return f"{_OUTSIDE[part]}.{kind}"
    raise StartupError(f"the GGUF file holds a tensor that no supported model has: {name}")


def _interleaved_heads(file: GgufFile) -> tuple[int, int]:
    """Number of query and key heads whose rows are interleaved, (0, 0) if the architecture keeps them."""
    if file.text("general.architecture") != "llama":
        return 0, 0
    num_heads = file.integer("llama.attention.head_count")
    return num_heads, file.integer("llama.attention.head_count_kv", num_heads)
