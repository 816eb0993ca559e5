"""`QuantizedWeight`: a weight as its checkpoint quantised it, in groups of 32 inputs.

The formats are GGUF's. In the K formats, scales and minimums are whole numbers, and eight groups share what these are
multiplied by.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

GROUP = 32
GROUPS_A_FACTOR = 8


@dataclass(frozen=True, slots=True)
class Format:
    """How a group is made up. Levels are 0 … 2^bits − 1 where there are minimums, else 0 is in their middle."""

    name: str
    bits: int
    has_minimums: bool
    scales_a_group: int = 1
    has_factors: bool = False


FORMATS = {
    each.name: each
    for each in (
        Format("Q4_0", 4, has_minimums=False),
        Format("Q4_1", 4, has_minimums=True),
        Format("Q5_0", 5, has_minimums=False),
        Format("Q5_1", 5, has_minimums=True),
        Format("Q8_0", 8, has_minimums=False),
        Format("Q4_K", 4, has_minimums=True, has_factors=True),
        Format("Q5_K", 5, has_minimums=True, has_factors=True),
        Format("Q6_K", 6, has_minimums=False, scales_a_group=2, has_factors=True),
    )
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """Scales or minimums, (out_features, some a group): float16, or int8 that are multiplied by float16 factors."""

    values: torch.Tensor
    factors: torch.Tensor | None = None  # (out_features, one for eight groups)

    def rows(self, rows: slice | torch.Tensor) -> "Steps":
        """Some outputs."""
        return Steps(values=self.values[rows], factors=None if self.factors is None else self.factors[rows])

    def columns(self, start: int, stop: int, scale: int, first_group: int) -> "Steps":
        """Some groups."""
        values = self.values[:, start * scale : stop * scale]
        if self.factors is None:
            return Steps(values=values)
        first, last = (first_group + start) // GROUPS_A_FACTOR, (first_group + stop - 1) // GROUPS_A_FACTOR
        return Steps(values=values, factors=self.factors[:, first : last + 1])

    def dense(self, num_groups: int, first_group: int) -> torch.Tensor:
        """What they stand for, in float32."""
        values = self.values.float()
        if self.factors is None:
            return values
        each = torch.arange(first_group, first_group + num_groups).div(GROUPS_A_FACTOR, rounding_mode="floor")
        factors = self.factors.float()[:, each]
        return values * factors.repeat_interleave(values.shape[1] // num_groups, dim=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantizedWeight:
    """w = scale · level + minimum."""

    format: Format
    levels: torch.Tensor  # (out_features, in_features) int8
    scales: Steps
    minimums: Steps | None = None
    first_group: int = 0  # how many groups that share a factor with the first one have been cut off before it

    @property
    def shape(self) -> tuple[int, int]:
        """(out_features, in_features)."""
        return self.levels.shape[0], self.levels.shape[1]

    def rows(self, rows: slice | torch.Tensor) -> "QuantizedWeight":
        """Some outputs, or all in another order."""
        return replace(
            self,
            levels=self.levels[rows],
            scales=self.scales.rows(rows),
            minimums=None if self.minimums is None else self.minimums.rows(rows),
        )

    def columns(self, start: int, stop: int) -> "QuantizedWeight | None":
        """Some inputs; None if that cuts a group."""
        if start % GROUP or stop % GROUP:
            return None
        first, end, before = start // GROUP, stop // GROUP, self.first_group
        return replace(
            self,
            levels=self.levels[:, start:stop],
            scales=self.scales.columns(first, end, self.format.scales_a_group, before),
            minimums=None if self.minimums is None else self.minimums.columns(first, end, 1, before),
            first_group=(before + first) % GROUPS_A_FACTOR,
        )

    def dense(self) -> torch.Tensor:
        """What it stands for, in float32."""
        num_outputs, num_inputs = self.shape
        num_groups = num_inputs // GROUP
        scales = self.scales.dense(num_groups, self.first_group)
        values = self.levels.float().view(num_outputs, scales.shape[1], -1) * scales.unsqueeze(-1)
        if self.minimums is not None:
            minimums = self.minimums.dense(num_groups, self.first_group)
            values = values.view(num_outputs, num_groups, -1) + minimums.unsqueeze(-1)
        return values.reshape(num_outputs, num_inputs)


def stack(weights: Sequence[QuantizedWeight]) -> QuantizedWeight:
    """One below the other. They must be of one format and have the same inputs."""
    first = weights[0]
    if len(weights) == 1:
        return first
    minimums = [weight.minimums for weight in weights if weight.minimums is not None]
    return replace(
        first,
        levels=torch.cat([weight.levels for weight in weights]),
        scales=_stack_steps([weight.scales for weight in weights]),
        minimums=_stack_steps(minimums) if minimums else None,
    )


def _stack_steps(steps: Sequence[Steps]) -> Steps:
    factors = [step.factors for step in steps if step.factors is not None]
    return Steps(
        values=torch.cat([step.values for step in steps]), factors=torch.cat(factors) if factors else None
    )
