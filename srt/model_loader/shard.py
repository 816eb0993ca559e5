"""Which slice of a checkpoint's tensor a rank keeps."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch

from srt.distributed.rank import RankInfo
from srt.util.math import ceil_div
from srt.util.quantized_weight import QuantizedWeight

Weight = torch.Tensor | QuantizedWeight


class Span(NamedTuple):
    """The numbers start … stop − 1."""

    start: int
    stop: int

    @property
    def length(self) -> int:
        """How many."""
        return self.stop - self.start

    def scaled(self, factor: int) -> "Span":
        """The same share of `factor` times as many."""
        return Span(self.start * factor, self.stop * factor)


NO_SPAN = Span(0, 0)


def even_span(total: int, rank: RankInfo, unit: int = 1) -> Span:
    """This rank's share of `total`, in order of rank; shares differ by at most one `unit`, the first are larger.

    Cut between units where the ranks get at least one each, else anywhere.
    """
    if total % unit or total // unit < rank.size:
        unit = 1
    share, num_larger = divmod(total // unit, rank.size)
    start = rank.rank * share + min(rank.rank, num_larger)
    return Span(start, start + share + (rank.rank < num_larger)).scaled(unit)


def padded_span(total: int, rank: RankInfo) -> Span:
    """This rank's share of `total` when all shares are to be equally long: the last ones may be short or empty."""
    share = ceil_div(total, rank.size)
    return Span(min(rank.rank * share, total), min((rank.rank + 1) * share, total))


@dataclass(frozen=True, slots=True)
class Slice:
    """A part of a tensor of `shape`: `span` along `dim`, everything when `dim` is None."""

    shape: tuple[int, ...]
    dim: int | None = None
    span: Span = NO_SPAN

    def of(self, tensor: torch.Tensor) -> torch.Tensor:
        """The part, as a view."""
        if self.dim is None:
            return tensor
        return tensor.narrow(self.dim, self.span.start, self.span.length)

    def of_quantized(self, weight: QuantizedWeight) -> QuantizedWeight | None:
        """The part; None if it cuts a group."""
        match self.dim:
            case None:
                return weight
            case 0:
                return weight.rows(slice(*self.span))
            case _:
                return weight.columns(*self.span)


def rows(span: Span, *shape: int) -> Slice:
    """Of a tensor of `shape`, the rows in `span`."""
    return Slice(shape, 0, span)


def columns(span: Span, *shape: int) -> Slice:
    """Of a tensor of `shape`, the columns in `span`."""
    return Slice(shape, 1, span)


def dense(weight: Weight, dtype: torch.dtype) -> torch.Tensor:
    """As numbers of a type."""
    return (weight if isinstance(weight, torch.Tensor) else weight.dense()).to(dtype)


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """A tensor in a checkpoint, not read yet. `read` gives a slice in the type it is stored in."""

    name: str
    shape: tuple[int, ...]
    read: Callable[[Slice], Weight]
