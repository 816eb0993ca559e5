"""`AttentionLayer`: what a model calls with q, k and v; the backend of this batch does the work.

Next on the request's path: srt/layers/attention/native.py
"""

import torch

from srt.layers.attention.backend import AttentionShape, PreparedAttention


class AttentionLayer:
    """One layer's attention on one rank."""

    def __init__(self, shape: AttentionShape) -> None:
        self.shape = shape

    def __call__(
        self,
        queries: torch.Tensor,
        keys: torch.Tensor,
        values: torch.Tensor,
        attention: PreparedAttention,
    ) -> torch.Tensor:
        """(T, heads, head_dim) each, positions already applied, to (T, num_heads · head_dim)."""
        return attention.attend(self.shape, queries, keys, values)
