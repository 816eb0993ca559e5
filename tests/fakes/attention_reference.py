"""What attention is by its definition, in float64, one row after another."""

import math

import torch

from mem_cache.kv_pool import KVPool
from srt.forward_batch import ForwardBatch
from srt.layers.attention.backend import AttentionShape


def reference_attention(
    batch: ForwardBatch, shape: AttentionShape, queries: torch.Tensor, pool: KVPool
) -> torch.Tensor:
    """(T, num_heads · head_dim) from (T, num_heads, head_dim) and a pool that holds the new tokens, too."""
    group = shape.num_heads // shape.num_kv_heads
    outputs = []
    for row, seq_len in enumerate(batch.seq_lens_host):
        start, stop = int(batch.row_starts[row]), int(batch.row_starts[row + 1])
        slots = batch.slot_table[row, :seq_len]
        keys = pool.keys(shape.layer)[slots].double().repeat_interleave(group, dim=1)
        values = pool.values(shape.layer)[slots].double().repeat_interleave(group, dim=1)
        scores = torch.einsum("qhd,khd->hqk", queries[start:stop].double(), keys) * shape.scale
        if shape.soft_cap is not None:
            scores = shape.soft_cap * torch.tanh(scores / shape.soft_cap)
        own = torch.arange(seq_len - (stop - start), seq_len).unsqueeze(1)
        positions = torch.arange(seq_len)
        is_hidden = positions > own
        if shape.window is not None:
            is_hidden |= positions <= own - shape.window
        weights = scores.masked_fill(is_hidden, -math.inf).softmax(-1)
        outputs.append(torch.einsum("hqk,khd->qhd", weights, values).flatten(1))
    return torch.cat(outputs)
