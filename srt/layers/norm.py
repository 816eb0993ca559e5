"""`RMSNorm`, computed in float32 and rounded to the input's type."""

import torch
import torch.nn.functional as F  # noqa: N812


class RMSNorm:
    """Scale the last dimension to mean square 1, then by a learnt weight. Zhang and Sennrich, 2019."""

    def __init__(self, weight: torch.Tensor, eps: float) -> None:
        self._weight, self._eps = weight, eps
        self.num_bytes = weight.nbytes

    def __call__(self, inputs: torch.Tensor) -> torch.Tensor:
        """(..., features), any shape before."""
        return F.rms_norm(inputs, self._weight.shape, self._weight, self._eps)
