"""`LinearMethod`, the interface: how a linear layer keeps its weight, and how it multiplies by it."""

from typing import Protocol

import torch


class PreparedLinear(Protocol):
    """A weight in the form that its product wants."""

    num_bytes: int

    def __call__(self, inputs: torch.Tensor) -> torch.Tensor:
        """(T, in_features) to (T, out_features)."""
        ...


class LinearMethod(Protocol):
    """Chooses the form."""

    def __call__(self, weight: torch.Tensor, bias: torch.Tensor | None) -> PreparedLinear:
        """From a (out_features, in_features) weight as the checkpoint has it. The method may keep or drop it."""
        ...
