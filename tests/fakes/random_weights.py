"""Random quantised weights of every format."""

import torch

from srt.util.quantized_weight import FORMATS, GROUP, GROUPS_A_FACTOR, QuantizedWeight, Steps


def random_weight(name: str, num_outputs: int, num_inputs: int, random: torch.Generator) -> QuantizedWeight:
    """Values of about 1. Every level that the format has may occur."""
    made = FORMATS[name]
    offset = 0 if made.has_minimums else 2 ** (made.bits - 1)
    levels = torch.randint(2**made.bits, (num_outputs, num_inputs), generator=random) - offset
    num_groups = num_inputs // GROUP

    def steps(num_steps: int, size: float, lowest: int) -> Steps:
        values = torch.randn(num_outputs, num_steps, generator=random) * size
        if not made.has_factors:
            return Steps(values=values.half())
        num_factors = -(-num_groups // GROUPS_A_FACTOR)
        factors = torch.randn(num_outputs, num_factors, generator=random) * size / 40
        whole = torch.randint(lowest, 64, values.shape, generator=random).to(torch.int8)
        return Steps(values=whole, factors=factors.half())

    return QuantizedWeight(
        format=made,
        levels=levels.to(torch.int8),
        scales=steps(num_groups * made.scales_a_group, 2.0**-made.bits, 0 if made.has_minimums else -128),
        minimums=steps(num_groups, 0.5, 0) if made.has_minimums else None,
    )
