"""Write a small GGUF file with the reference writer: one layer, random weights, whatever metadata a test wants."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import numpy.typing as npt

HIDDEN, HEADS, KV_HEADS, HEAD_DIM, MLP, VOCAB = 32, 4, 2, 8, 64, 96

Floats = npt.NDArray[np.float32]


def tiny_metadata(arch: str) -> dict[str, Any]:
    """What every converted model says."""
    return {
        f"{arch}.block_count": 1,
        f"{arch}.context_length": 512,
        f"{arch}.embedding_length": HIDDEN,
        f"{arch}.feed_forward_length": MLP,
        f"{arch}.attention.head_count": HEADS,
        f"{arch}.attention.head_count_kv": KV_HEADS,
        f"{arch}.attention.layer_norm_rms_epsilon": 1e-6,
        f"{arch}.rope.freq_base": 10000.0,
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
    }


def tiny_tensors(seed: int = 0, mlp: int = MLP) -> dict[str, Floats]:
    """The weights of one Llama layer, under GGUF names."""
    shapes = {
        "token_embd.weight": (VOCAB, HIDDEN),
        "output_norm.weight": (HIDDEN,),
        "blk.0.attn_norm.weight": (HIDDEN,),
        "blk.0.attn_q.weight": (HEADS * HEAD_DIM, HIDDEN),
        "blk.0.attn_k.weight": (KV_HEADS * HEAD_DIM, HIDDEN),
        "blk.0.attn_v.weight": (KV_HEADS * HEAD_DIM, HIDDEN),
        "blk.0.attn_output.weight": (HIDDEN, HEADS * HEAD_DIM),
        "blk.0.ffn_norm.weight": (HIDDEN,),
        "blk.0.ffn_gate.weight": (mlp, HIDDEN),
        "blk.0.ffn_up.weight": (mlp, HIDDEN),
        "blk.0.ffn_down.weight": (HIDDEN, mlp),
    }
    random = np.random.default_rng(seed)
    return {name: random.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}


def write_gguf(
    path: Path,
    *,
    arch: str = "llama",
    metadata: Mapping[str, Any] | None = None,
    tensors: Mapping[str, Floats] | None = None,
    raw_tensors: Mapping[str, tuple[npt.NDArray[np.uint8], gguf.GGMLQuantizationType]] | None = None,
) -> Path:
    """Write the file. `metadata` is laid over the usual; a value of None leaves a key out. Raw tensors are blocks."""
    writer = gguf.GGUFWriter(str(path), arch)
    for key, value in (tiny_metadata(arch) | dict(metadata or {})).items():
        if value is not None:
            _add(writer, key, value)
    for name, tensor in (tiny_tensors() if tensors is None else tensors).items():
        writer.add_tensor(name, tensor)
    for name, (blocks, tensor_type) in (raw_tensors or {}).items():
        writer.add_tensor(name, blocks, raw_dtype=tensor_type)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def write_quantized_gguf(path: Path, type_name: str) -> Path:
    """The usual model with all matrices in one type."""
    tensor_type = gguf.GGMLQuantizationType[type_name]
    tensors = tiny_tensors()
    matrices = {name: values for name, values in tensors.items() if values.ndim == 2}
    raw = {
        name: (gguf.quants.quantize(values, tensor_type), tensor_type) for name, values in matrices.items()
    }
    vectors = {name: values for name, values in tensors.items() if values.ndim == 1}
    return write_gguf(path, tensors=vectors, raw_tensors=raw)


def _add(writer: gguf.GGUFWriter, key: str, value: Any) -> None:
    match value:
        case bool():
            writer.add_bool(key, value)
        case int():
            writer.add_uint32(key, value)
        case float():
            writer.add_float32(key, value)
        case str():
            writer.add_string(key, value)
        case _:
            writer.add_array(key, value)
