"""`QuantizedWeight`: a weight as its checkpoint quantised it, in groups of 32 inputs that share a scale."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

GROUP = 32


@dataclass(frozen=True, slots=True)
class QuantizedWeight:
    """w = scale · level + minimum. Levels are 0 … 15 (uint8) with minimums, or −128 … 127 (int8) without."""

    levels: torch.Tensor  # (out_features, in_features)
    scales: torch.Tensor  # (out_features, in_features / GROUP) float16
    minimums: torch.Tensor | None  # the same

    @property
    def shape(self) -> tuple[int, int]:
        """(out_features, in_features)."""
        return self.levels.shape[0], self.levels.shape[1]

    def rows(self, start: int, stop: int) -> "QuantizedWeight":
        """Some outputs."""
        minimums = None if self.minimums is None else self.minimums[start:stop]
        return QuantizedWeight(self.levels[start:stop], self.scales[start:stop], minimums)

    def columns(self, start: int, stop: int) -> "QuantizedWeight | None":
        """Some inputs; None if that cuts a group."""
        if start % GROUP or stop % GROUP:
            return None
        groups = slice(start // GROUP, stop // GROUP)
        minimums = None if self.minimums is None else self.minimums[:, groups]
        return QuantizedWeight(self.levels[:, start:stop], self.scales[:, groups], minimums)

    def dense(self) -> torch.Tensor:
        """What it stands for, in float32."""
        values = self.levels.float().view(len(self.levels), -1, GROUP) * self.scales.float().unsqueeze(-1)
        if self.minimums is not None:
            values += self.minimums.float().unsqueeze(-1)
        return values.flatten(1)


def stack(weights: Sequence[QuantizedWeight]) -> QuantizedWeight | None:
    """One below the other; None if they are of different kinds."""
    minimums = [weight.minimums for weight in weights if weight.minimums is not None]
    if len(minimums) not in (0, len(weights)):
        return None
    return QuantizedWeight(
        torch.cat([weight.levels for weight in weights]),
        torch.cat([weight.scales for weight in weights]),
        torch.cat(minimums) if minimums else None,
    )
