"""Linear layers in the native kernels: a weight in their order, and products with it."""

from ctypes import byref

import torch

from srt.layers.native import library as native
from srt.layers.quantization.method import PreparedLinear
from srt.layers.quantization.unquantized import prepare_plain

CACHE_LINE = 64


class PackedMatrix:
    """A bfloat16 weight, and perhaps a bias, as the kernels want them. The original is not kept."""

    def __init__(
        self, library: native.KernelLibrary, weight: torch.Tensor, bias: torch.Tensor | None
    ) -> None:
        assert fits(weight), f"the kernels do not take a weight of {weight.dtype} {tuple(weight.shape)}"
        num_outputs, num_inputs = weight.shape
        self._packed = _aligned_words(library.packed_words(num_outputs, num_inputs))
        self._bias = None if bias is None else bias.contiguous()
        weight = weight.contiguous()
        library.pack(weight.data_ptr(), num_outputs, num_inputs, self._packed.data_ptr())
        self.num_bytes = self._packed.nbytes + (0 if self._bias is None else self._bias.nbytes)
        # To be passed on; valid as long as this object lives.
        self.matrix = native.Matrix(
            packed=self._packed.data_ptr(),
            bias=None if self._bias is None else self._bias.data_ptr(),
            num_outputs=num_outputs,
            num_inputs=num_inputs,
        )


class NativeLinear:
    """PreparedLinear. An output's bits do not depend on the rows beside it."""

    def __init__(
        self, library: native.KernelLibrary, weight: torch.Tensor, bias: torch.Tensor | None
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
    """LinearMethod: native where the kernels take the weight, plain elsewhere."""

    def __init__(self, library: native.KernelLibrary) -> None:
        self._library = library

    def __call__(self, weight: torch.Tensor, bias: torch.Tensor | None) -> PreparedLinear:
        """From a (out_features, in_features) weight."""
        if fits(weight):
            return NativeLinear(self._library, weight, bias)
        return prepare_plain(weight, bias)


def fits(weight: torch.Tensor) -> bool:
    """Inputs are read in pairs."""
    return weight.dtype == torch.bfloat16 and weight.shape[1] % 2 == 0 and weight.numel() > 0


def _aligned_words(num_words: int) -> torch.Tensor:
    """Vectors that cross no cache line."""
    whole = torch.empty(num_words + CACHE_LINE // 4, dtype=torch.int32)
    start = -whole.data_ptr() % CACHE_LINE // 4
    return whole[start : start + num_words]
