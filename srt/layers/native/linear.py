"""Linear layers in the native kernels: a weight in their order, and products with it."""

from ctypes import byref

import torch

from srt.layers.native import library as native
from srt.layers.quantization.method import PreparedLinear
from srt.layers.quantization.unquantized import prepare_plain
from srt.util.quantized_weight import QuantizedWeight

CACHE_LINE = 64


class PackedMatrix:
    """A weight, and perhaps a bias, as the kernels want them. The original is not kept."""

    def __init__(
        self,
        library: native.KernelLibrary,
        weight: torch.Tensor | QuantizedWeight,
        bias: torch.Tensor | None,
    ) -> None:
        self._bias = None if bias is None else bias.contiguous()
        num_outputs, num_inputs = weight.shape
        if isinstance(weight, QuantizedWeight):
            kind = native.EIGHT_BITS if weight.minimums is None else native.FOUR_BITS
        else:
            assert fits(weight), f"the kernels do not take a weight of {weight.dtype} {tuple(weight.shape)}"
            kind = native.PAIRS_OF_BFLOAT16
        self._packed = _aligned_zeros(library.packed_bytes(num_outputs, num_inputs, kind))
        _pack(library, weight, self._packed)
        self.num_bytes = self._packed.nbytes + (0 if self._bias is None else self._bias.nbytes)
        # To be passed on; valid as long as this object lives.
        self.matrix = native.Matrix(
            packed=self._packed.data_ptr(),
            bias=None if self._bias is None else self._bias.data_ptr(),
            num_outputs=num_outputs,
            num_inputs=num_inputs,
            kind=kind,
        )


class NativeLinear:
    """PreparedLinear. An output's bits do not depend on the rows beside it."""

    def __init__(
        self,
        library: native.KernelLibrary,
        weight: torch.Tensor | QuantizedWeight,
        bias: torch.Tensor | None,
    ) -> None:
        self._multiply = library.multiply
        self._weight = PackedMatrix(library, weight, bias)
        self.num_bytes = self._weight.num_bytes

    def __call__(self, inputs: torch.Tensor) -> torch.Tensor:
        """(T, in_features) to (T, out_features)."""
        matrix = self._weight.matrix
        inputs = inputs.contiguous()
        outputs = inputs.new_empty(inputs.shape[0], matrix.num_outputs)
        self._multiply(
            byref(matrix), inputs.data_ptr(), inputs.shape[0], outputs.data_ptr(), torch.get_num_threads()
        )
        return outputs


class NativeMethod:
    """LinearMethod: native where the kernels take the weight, plain elsewhere.

    A `quantized` form of the very weight is used in its stead.
    """

    def __init__(self, library: native.KernelLibrary, quantized: QuantizedWeight | None = None) -> None:
        self._library = library
        self._quantized = quantized

    def __call__(self, weight: torch.Tensor, bias: torch.Tensor | None) -> PreparedLinear:
        """From a (out_features, in_features) weight."""
        if not fits(weight):
            return prepare_plain(weight, bias)
        if self._quantized is not None and self._quantized.shape == tuple(weight.shape):
            return NativeLinear(self._library, self._quantized, bias)
        return NativeLinear(self._library, weight, bias)


def fits(weight: torch.Tensor) -> bool:
    """Inputs are read in pairs."""
    return weight.dtype == torch.bfloat16 and weight.shape[1] % 2 == 0 and weight.numel() > 0


def _pack(
    library: native.KernelLibrary, weight: torch.Tensor | QuantizedWeight, packed: torch.Tensor
) -> None:
    num_outputs, num_inputs = weight.shape
    if isinstance(weight, torch.Tensor):
        rows = weight.contiguous()
        library.pack(rows.data_ptr(), num_outputs, num_inputs, packed.data_ptr())
        return
    levels, scales = weight.levels.contiguous(), weight.scales.contiguous()
    if weight.minimums is None:
        library.pack_eight_bits(
            levels.data_ptr(), scales.data_ptr(), num_outputs, num_inputs, packed.data_ptr()
        )
        return
    minimums = weight.minimums.contiguous()
    library.pack_four_bits(
        levels.data_ptr(), scales.data_ptr(), minimums.data_ptr(), num_outputs, num_inputs, packed.data_ptr()
    )


def _aligned_zeros(num_bytes: int) -> torch.Tensor:
    """Vectors that cross no cache line."""
    whole = torch.zeros(num_bytes + CACHE_LINE, dtype=torch.uint8)
    start = -whole.data_ptr() % CACHE_LINE
    return whole[start : start + num_bytes]
