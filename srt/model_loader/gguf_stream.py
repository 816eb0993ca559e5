"""A GGUF file's tensors under Hugging Face names, one at a time, decoded when they are read.

Undoes what llama.cpp's converter did to Llama's query and key rows. Holds one tensor in memory; the file is mapped.
"""

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import torch

from srt.configs.gguf_config import ROPE_FACTORS_TENSOR
from srt.configs.gguf_file import GgufFile, GgufTensor, read_gguf
from srt.errors import StartupError
from srt.model_loader.gguf_blocks import Floats, decode
from srt.model_loader.shard import Slice, StoredTensor

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


def gguf_weights(path: Path, dtype: torch.dtype) -> Iterator[tuple[str, torch.Tensor]]:
    """(name, tensor) of every weight, in file order, decoded in float32 and then rounded to `dtype`."""
    return ((stored.name, stored.read(Slice(stored.shape))) for stored in gguf_tensors(path, dtype))


def gguf_tensors(path: Path, dtype: torch.dtype) -> Iterator[StoredTensor]:
    """The same, of which each is decoded when it is read.

    A tied head does not appear. Raises StartupError for an unreadable file or a tensor it has no name for.
    """
    file = read_gguf(path)
    heads = heads_to_reorder(file)
    for tensor in file.tensors.values():
        name = hf_name(tensor.name)
        if name is not None:
            yield StoredTensor(name, tensor.shape, partial(_read, tensor, heads, dtype))


def _read(tensor: GgufTensor, heads: tuple[int, int], dtype: torch.dtype, part: Slice) -> torch.Tensor:
    """Only whole blocks can be decoded: a tensor is read whole."""
    num_heads, num_kv_heads = heads
    values = decode(tensor.type.name, tensor.data, tensor.type.block_size, tensor.type.num_bytes)
    values = values.reshape(tensor.shape)
    if num_heads and ".attn_q." in tensor.name:
        values = _rows_in_halves(tensor, values, num_heads)
    elif num_heads and ".attn_k." in tensor.name:
        values = _rows_in_halves(tensor, values, num_kv_heads)
    whole = torch.from_numpy(values).to(dtype)
    # A clone, so that the rest of the tensor can go.
    return whole if part.dim is None else part.of(whole).clone()


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


def heads_to_reorder(file: GgufFile) -> tuple[int, int]:
    """Number of query and key heads whose rows are interleaved, (0, 0) if the architecture keeps them."""
    if file.text("general.architecture") != "llama":
        return 0, 0
    num_heads = file.integer("llama.attention.head_count")
    return num_heads, file.integer("llama.attention.head_count_kv", num_heads)


def _rows_in_halves(tensor: GgufTensor, values: Floats, num_heads: int) -> Floats:
    """Rows of each head from llama.cpp's order (a pair rotates together, side by side) to halves (i with i + d/2)."""
    num_rows = tensor.shape[0]
    if num_rows % (2 * num_heads):
        raise StartupError(f"tensor {tensor.name} has {num_rows} rows, which {num_heads} heads cannot share")
    pairs = values.reshape(num_heads, num_rows // num_heads // 2, 2, *tensor.shape[1:])
    return np.ascontiguousarray(pairs.swapaxes(1, 2)).reshape(tensor.shape)
