"""`KVPool`: the keys and values themselves, one pair of tensors a layer, one row a slot.

Says nothing about which slot is whose. Slots of the padding page may be written and read by anyone; they hold
zeros or what padding wrote, and always finite numbers.
"""

import math

import numpy as np
import torch

CACHE_LINE = 64


class KVPool:
    """Multi-head layout: (num_slots, num_kv_heads, head_dim) for keys and for values of each layer."""

    def __init__(
        self,
        *,
        num_layers: int,
        num_slots: int,
        num_kv_heads: int,
        head_dim: int,
        dtype: torch.dtype,
        device: str,
    ) -> None:
        shape = (num_slots, num_kv_heads, head_dim)
        self._keys = [_zeros(shape, dtype, device) for _ in range(num_layers)]
        self._values = [_zeros(shape, dtype, device) for _ in range(num_layers)]

    @property
    def num_layers(self) -> int:
        """Each has keys and values."""
        return len(self._keys)

    def keys(self, layer: int) -> torch.Tensor:
        """(num_slots, num_kv_heads, head_dim), the tensor itself."""
        return self._keys[layer]

    def values(self, layer: int) -> torch.Tensor:
        """(num_slots, num_kv_heads, head_dim), the tensor itself."""
        return self._values[layer]

    def write(self, layer: int, slots: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> None:
        """Store (T, num_kv_heads, head_dim) keys and values in the (T,) slots."""
        self._keys[layer].index_copy_(0, slots, keys)
        self._values[layer].index_copy_(0, slots, values)

    @property
    def num_bytes(self) -> int:
        """Of all layers, whether touched yet or not."""
        return sum(tensor.nbytes for tensor in (*self._keys, *self._values))


def _zeros(shape: tuple[int, ...], dtype: torch.dtype, device: str) -> torch.Tensor:
    """Zeros, not garbage: a masked position still enters the arithmetic, and NaN times nothing is NaN.

    In host memory they come from numpy, which asks the system for zeroed pages that exist only once they are
    touched (see pages_ahead.py). torch writes its zeros, and a pool of half the machine's memory would be all
    there from the start.
    They begin with a cache line: a row that ends in the middle of one costs another fetch.
    """
    if device != "cpu":
        return torch.zeros(shape, dtype=dtype, device=device)
    num_bytes = math.prod(shape) * dtype.itemsize
    untouched = torch.from_numpy(np.zeros(num_bytes + CACHE_LINE, np.uint8))
    start = -untouched.data_ptr() % CACHE_LINE
    return untouched[start : start + num_bytes].view(dtype).view(shape)
