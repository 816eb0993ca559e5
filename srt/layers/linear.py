"""Linear layers of one rank: those that make a part of the outputs, those that need a part of the inputs.

They are given this rank's part of the weight; which part that is, the model says.
"""

import torch

from srt.distributed.collectives import TpGroup
from srt.layers.quantization.method import LinearMethod
from srt.layers.quantization.unquantized import prepare_plain


class ColumnLinear:
    """Outputs of this rank, from inputs that every rank has. Several matrices may be stacked: one product for all."""

    def __init__(
        self,
        weights: list[torch.Tensor],
        biases: list[torch.Tensor] | None = None,
        *,
        method: LinearMethod = prepare_plain,
    ) -> None:
        weight = weights[0] if len(weights) == 1 else torch.cat(weights)
        self._product = method(weight, None if biases is None else torch.cat(biases))
        self.num_bytes = self._product.num_bytes

    def __call__(self, inputs: torch.Tensor) -> torch.Tensor:
        """(T, in_features) to (T, out_features of this rank), the stacked matrices' outputs side by side."""
        return self._product(inputs)


class RowLinear:
    """All outputs, from the inputs of this rank: each rank computes a summand."""

    def __init__(
        self,
        weight: torch.Tensor,
        bias: torch.Tensor | None,
        group: TpGroup,
        *,
        method: LinearMethod = prepare_plain,
    ) -> None:
        # The sum over ranks must hold the bias once.
        self._product = method(weight, bias if group.rank.is_leader else None)
        self._group = group
        self.num_bytes = self._product.num_bytes

    def __call__(self, inputs: torch.Tensor) -> torch.Tensor:
        """(T, in_features of this rank) to (T, out_features), the same on every rank."""
        return self._group.all_reduce(self._product(inputs))
