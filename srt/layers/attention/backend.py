"""`AttentionBackend`, the interface: prepare a batch once, then attend in each layer.

A backend owns how keys and values are read; it is given the pool at its making. `prepare` does whatever the layers
of one pass can share (index lists, masks, launch shapes), `attend` runs one layer. A backend may read the pool
in place or gather from it.
"""

from dataclasses import dataclass
from typing import Protocol

import torch

from srt.forward_batch import ForwardBatch


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionShape:
    """One layer's attention on one rank. Query heads h·g … h·g + g − 1 share key-value head h."""

    layer: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    window: int | None  # a token sees itself and the window − 1 tokens before; None: everything before
    scale: float
    soft_cap: float | None = None  # scores s become soft_cap · tanh(s / soft_cap)


class PreparedAttention(Protocol):
    """Attention of one batch, ready to run layer by layer, in order."""

    def attend(
        self, shape: AttentionShape, queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor
    ) -> torch.Tensor:
        """Write the new keys and values to the batch's slots, then attend to everything that each token may see.

        `queries` (T, num_heads, head_dim), `keys` and `values` (T, num_kv_heads, head_dim), perhaps not
        contiguous. Returns (T, num_heads · head_dim).
        """
        ...


class AttentionBackend(Protocol):
    """One implementation of attention over one KV pool."""

    def prepare(self, batch: ForwardBatch) -> PreparedAttention:
        """Everything that the layers share. Valid until the next call of `prepare`."""
        ...
