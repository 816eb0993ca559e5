"""Shares of heads, features and vocabulary."""

import pytest
import torch

from srt.distributed.rank import RankInfo
from srt.model_loader.shard import Slice, Span, columns, even_span, padded_span, rows


def shares(total: int, size: int, unit: int = 1) -> list[int]:
    spans = [even_span(total, RankInfo(rank, size), unit) for rank in range(size)]
    assert [span.start for span in spans] == [0, *(span.stop for span in spans[:-1])]
    assert spans[-1].stop == total
    return [span.length for span in spans]


@pytest.mark.parametrize(
    ("total", "size", "unit", "expected"),
    [
        (3, 2, 1, [2, 1]),
        (3, 3, 1, [1, 1, 1]),
        (8, 3, 1, [3, 3, 2]),
        (1536, 2, 32, [768, 768]),
        (1600, 3, 32, [544, 544, 512]),
        (80, 3, 32, [27, 27, 26]),  # no whole number of units
        (64, 3, 32, [22, 21, 21]),  # fewer units than ranks
    ],
)
def test_shares_are_even_and_in_order(total: int, size: int, unit: int, expected: list[int]) -> None:
    assert shares(total, size, unit) == expected


@pytest.mark.parametrize("total", [1, 4, 5, 6, 7, 131])
@pytest.mark.parametrize("size", [1, 2, 3])
def test_padded_shares_cover_everything_and_only_the_last_are_short(total: int, size: int) -> None:
    spans = [padded_span(total, RankInfo(rank, size)) for rank in range(size)]
    assert [number for span in spans for number in range(*span)] == list(range(total))
    assert [span.length for span in spans] == sorted((span.length for span in spans), reverse=True)


def test_a_slice_is_cut_along_its_dimension() -> None:
    tensor = torch.arange(12).view(3, 4)
    assert torch.equal(rows(Span(1, 3), 3, 4).of(tensor), tensor[1:3])
    assert torch.equal(columns(Span(0, 2), 3, 4).of(tensor), tensor[:, :2])
    assert Slice((3, 4)).of(tensor) is tensor
