"""Weights in the native kernels' order, products with them, and single rows out of them."""

from collections.abc import Sequence
from ctypes import Array, byref
from itertools import groupby

import torch

from srt.layers.lm_head import HeadOutput
from srt.layers.native import library as native
from srt.layers.native.arena import Arena
from srt.util.quantized_weight import GROUP, QuantizedWeight, Steps, stack

Weight = torch.Tensor | QuantizedWeight

_ARENA = Arena()


class PackedMatrix:
    """Weights one below the other, and perhaps a bias, as the kernels want them. The originals are not kept.

    Quantised weights are multiplied with inputs that are rounded to bytes: bytes.h.
    """

    def __init__(
        self, library: native.KernelLibrary, weights: Sequence[Weight], bias: torch.Tensor | None
    ) -> None:
        self._library = library
        self._bias = None if bias is None else bias.contiguous()
        self._packed: list[torch.Tensor] = []
        parts: Array[native.MatrixPart] = (native.MatrixPart * native.MAX_PARTS)()
        stacked = _stack(weights)
        for part, weight in zip(parts, stacked, strict=False):
            packed = _pack(library, weight)
            self._packed.append(packed)
            part.packed, part.num_outputs, part.kind = packed.data_ptr(), weight.shape[0], _kind(weight)
        self.num_bytes = sum(packed.nbytes for packed in self._packed)
        self.num_bytes += 0 if self._bias is None else self._bias.nbytes
        # To be passed on; valid as long as this object lives.
        self.matrix = native.Matrix(
            parts=parts,
            bias=None if self._bias is None else self._bias.data_ptr(),
            num_parts=len(stacked),
            num_outputs=sum(weight.shape[0] for weight in stacked),
            num_inputs=stacked[0].shape[1],
            first_group=max(_first_group(weight) for weight in stacked),
        )

    def multiply(self, inputs: torch.Tensor) -> torch.Tensor:
        """(T, in_features) to (T, out_features) in float32. Bits do not depend on the rows beside an output."""
        return self.multiply_some(inputs, len(inputs)).logits

    def multiply_some(self, inputs: torch.Tensor, num_whole: int) -> HeadOutput:
        """The same of the first `num_whole` rows; of each other one the greatest, and the first that is it."""
        inputs = inputs.contiguous()
        num_rows, num_greatest = len(inputs), len(inputs) - num_whole
        output = HeadOutput(
            logits=torch.empty(num_whole, self.matrix.num_outputs, dtype=torch.float32),
            greatest=torch.empty(num_greatest, dtype=torch.float32),
            places=torch.empty(num_greatest, dtype=torch.int64),
        )
        self._library.head(
            byref(self.matrix),
            inputs.data_ptr(),
            num_rows,
            num_whole,
            output.logits.data_ptr(),
            output.greatest.data_ptr(),
            output.places.data_ptr(),
            self._library.threads(),
        )
        return output

    def look_up(self, outputs: torch.Tensor) -> torch.Tensor:
        """(T,) numbers of outputs to (T, in_features): their weights, each rounded once to bfloat16."""
        outputs = outputs.contiguous()
        weights = torch.empty(len(outputs), self.matrix.num_inputs, dtype=torch.bfloat16)
        self._library.look_up(byref(self.matrix), outputs.data_ptr(), len(outputs), weights.data_ptr())
        return weights


class NativeHead:
    """PreparedHead. Logits are float32, sums as they are; where only the likeliest is wanted, none are written."""

    def __init__(self, matrix: PackedMatrix) -> None:
        self._matrix = matrix
        self.num_bytes = matrix.num_bytes

    def __call__(self, hidden: torch.Tensor, num_logit_rows: int) -> HeadOutput:
        """See PreparedHead."""
        return self._matrix.multiply_some(hidden, num_logit_rows)


class NativeTable:
    """EmbeddingTable, of a matrix that may also be multiplied by."""

    def __init__(self, matrix: PackedMatrix) -> None:
        self._matrix = matrix
        self.num_rows = int(matrix.matrix.num_outputs)
        self.num_bytes = matrix.num_bytes

    def __call__(self, rows: torch.Tensor) -> torch.Tensor:
        """(T,) to (T, hidden_size)."""
        if self.num_rows == 0:
            return torch.zeros(len(rows), self._matrix.matrix.num_inputs, dtype=torch.bfloat16)
        return self._matrix.look_up(rows)


def fits(weight: Weight) -> bool:
    """Inputs are read in pairs, or in whole groups."""
    if isinstance(weight, QuantizedWeight):
        return weight.shape[1] % GROUP == 0
    return weight.dtype == torch.bfloat16 and weight.shape[1] % 2 == 0


def _stack(weights: Sequence[Weight]) -> list[Weight]:
    """Neighbours of one kind become one."""
    stacked: list[Weight] = []
    for _, run in groupby(weights, key=_kind):
        alike = list(run)
        dense = [weight for weight in alike if isinstance(weight, torch.Tensor)]
        quantized = [weight for weight in alike if isinstance(weight, QuantizedWeight)]
        if dense:
            stacked.append(dense[0] if len(dense) == 1 else torch.cat(dense))
        else:
            stacked.append(stack(quantized))
    return stacked


def _kind(weight: Weight) -> int:
    return (
        native.QUANTIZED[weight.format.name]
        if isinstance(weight, QuantizedWeight)
        else native.PAIRS_OF_BFLOAT16
    )


def _first_group(weight: Weight) -> int:
    return weight.first_group if isinstance(weight, QuantizedWeight) else 0


def _pack(library: native.KernelLibrary, weight: Weight) -> torch.Tensor:
    assert fits(weight), f"the kernels do not take this weight of {tuple(weight.shape)}"
    num_outputs, num_inputs = weight.shape
    kind, first_group = _kind(weight), _first_group(weight)
    packed = _ARENA.take(library.packed_bytes(kind, num_outputs, num_inputs, first_group))
    if isinstance(weight, torch.Tensor):
        rows = weight.contiguous()
        library.pack(rows.data_ptr(), num_outputs, num_inputs, packed.data_ptr())
        return packed
    levels = weight.levels.contiguous()
    scales, minimums = _contiguous(weight.scales), _contiguous(weight.minimums)
    source = native.Levels(
        levels=levels.data_ptr(),
        scales=_address(scales[0]),
        minimums=_address(minimums[0]),
        scale_factors=_address(scales[1]),
        minimum_factors=_address(minimums[1]),
    )
    library.pack_levels(kind, byref(source), num_outputs, num_inputs, first_group, packed.data_ptr())
    return packed


def _contiguous(steps: Steps | None) -> tuple[torch.Tensor | None, torch.Tensor | None]:
    if steps is None:
        return None, None
    return steps.values.contiguous(), None if steps.factors is None else steps.factors.contiguous()


def _address(tensor: torch.Tensor | None) -> int | None:
    return None if tensor is None else tensor.data_ptr()
