"""Quantise a checkpoint's matrices as they are loaded: --quantization int8 and int4.

In groups of 32 inputs, so that the kernels for GGUF's formats multiply by them. Groups are the checkpoint's, whatever
the number of ranks; a matrix that ranks cut inside a group is left as it is.
"""

from collections.abc import Callable

import torch

from srt.model_loader.shard import Slice, Weight
from srt.util.quantized_weight import FORMATS, GROUP, QuantizedWeight, Steps

# At the beginning and at the end of a model, four bits would cost most.
_NEVER_FOUR_BITS = ("model.embed_tokens.weight", "lm_head.weight")
_SMALLEST = 2.0**-24  # float16's; whatever is smaller is zero
_ROWS_AT_A_TIME = 4096  # in float32


def quantize(weight: torch.Tensor, part: Slice, name: str, quantization: str) -> Weight:
    """The weight, of which `part` was read, if it is a matrix in whole groups; else as it is."""
    cuts_columns = part.dim == 1 and any(edge % GROUP for edge in part.span)
    if weight.dim() != 2 or part.shape[1] % GROUP or weight.numel() == 0 or cuts_columns:
        return weight
    quantizer = to_eight_bits if name in _NEVER_FOUR_BITS else QUANTIZERS[quantization]
    return quantizer(weight)


def to_eight_bits(weight: torch.Tensor) -> QuantizedWeight:
    """−127 … 127, with a scale a group."""
    levels, scales = [], []
    for start in range(0, len(weight), _ROWS_AT_A_TIME):
        rows = weight[start : start + _ROWS_AT_A_TIME].float()
        groups = rows.view(len(rows), -1, GROUP)
        scale = (groups.abs().amax(-1) / 127).half()
        whole = (groups / scale.float().clamp_min(_SMALLEST).unsqueeze(-1)).round_().clamp_(-127, 127)
        levels.append(whole.to(torch.int8).flatten(1))
        scales.append(scale)
    return QuantizedWeight(
        format=FORMATS["Q8_0"], levels=torch.cat(levels), scales=Steps(values=torch.cat(scales))
    )


def to_four_bits(weight: torch.Tensor) -> QuantizedWeight:
    """0 … 15, with a scale and a minimum a group."""
    levels, scales, minimums = [], [], []
    for start in range(0, len(weight), _ROWS_AT_A_TIME):
        rows = weight[start : start + _ROWS_AT_A_TIME].float()
        groups = rows.view(len(rows), -1, GROUP)
        minimum = groups.amin(-1).half()
        scale = ((groups.amax(-1) - minimum.float()) / 15).clamp_min(0).half()
        above = groups - minimum.float().unsqueeze(-1)
        whole = (above / scale.float().clamp_min(_SMALLEST).unsqueeze(-1)).round_().clamp_(0, 15)
        levels.append(whole.to(torch.int8).flatten(1))
        scales.append(scale)
        minimums.append(minimum)
    return QuantizedWeight(
        format=FORMATS["Q4_1"],
        levels=torch.cat(levels),
        scales=Steps(values=torch.cat(scales)),
        minimums=Steps(values=torch.cat(minimums)),
    )


QUANTIZERS: dict[str, Callable[[torch.Tensor], QuantizedWeight]] = {
    "int8": to_eight_bits,
    "int4": to_four_bits,
}
