"""Seeded random weights, for tests and benchmarks: the same whatever the number of ranks."""

import hashlib
import math
from collections.abc import Iterator, Mapping

import torch

from srt.model_loader.shard import Slice, StoredTensor


def dummy_weights(slices: Mapping[str, Slice], seed: int) -> Iterator[StoredTensor]:
    """A tensor for every name. Each is drawn whole from a generator of its own, then cut."""
    for name, whole in slices.items():
        yield StoredTensor(name, whole.shape, _Draw(name, seed))


class _Draw:
    def __init__(self, name: str, seed: int) -> None:
        self._name, self._seed = name, seed

    def __call__(self, part: Slice) -> torch.Tensor:
        if self._name.endswith("norm.weight"):
            return part.of(torch.ones(part.shape))
        digest = hashlib.blake2b(f"{self._seed} {self._name}".encode(), digest_size=7).digest()
        generator = torch.Generator().manual_seed(int.from_bytes(digest, "big"))
        # Outputs about as large as inputs, so that deep models neither fade nor overflow.
        scale = 1 / math.sqrt(part.shape[-1])
        return part.of(torch.randn(part.shape, generator=generator) * scale)
