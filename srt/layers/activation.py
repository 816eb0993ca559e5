"""Gated activations."""

import torch
import torch.nn.functional as F  # noqa: N812


def silu_and_multiply(gate_and_up: torch.Tensor) -> torch.Tensor:
    """SwiGLU: (T, 2·features), the gate in the first half, to (T, features)."""
    gate, up = gate_and_up.chunk(2, dim=-1)
    return F.silu(gate).mul_(up)
