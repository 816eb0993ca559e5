"""Logits of some rows, and the likeliest token of others."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from srt.distributed.collectives import LoneGroup, TpGroup
from srt.forward_batch import ForwardBatch
from srt.layers.lm_head import LOGITS_PER_SLICE, LmHead, PlainHead, PreparedHead
from srt.layers.native.linear import NativeHead, PackedMatrix
from srt.layers.native.load import kernels
from srt.layers.quantization.unquantized import prepare_plain
from srt.model_loader.shard import padded_span
from srt.sampling.likeliest import find_likeliest
from tests.fakes.forward_batches import Slots, Tokens, extend
from tests.fakes.ranks_in_threads import run_in_threads
from tests.fakes.tp_ranks import KeepingReader

NO_NORM = torch.nn.Identity()
MakeHead = Callable[[torch.Tensor], PreparedHead]


def plain(weight: torch.Tensor) -> PreparedHead:
    return PlainHead(prepare_plain(weight, None))


def native(weight: torch.Tensor) -> PreparedHead:
    return NativeHead(PackedMatrix(kernels(), [weight], None))


def batch_of(num_rows: int, logit_rows: list[int], greedy_rows: list[int]) -> ForwardBatch:
    batch = extend([(Tokens(), [0] * num_rows)], Slots(num_rows + 2))
    rows = (torch.tensor(rows, dtype=torch.int64) for rows in (logit_rows, greedy_rows))
    return replace(batch, **dict(zip(("logit_rows", "greedy_rows"), rows, strict=True)))


def test_what_is_only_looked_at_comes_in_slices_and_what_is_sampled_at_once() -> None:
    vocab_size = LOGITS_PER_SLICE // 2
    head = LmHead(NO_NORM, plain(torch.arange(2.0 * vocab_size).view(vocab_size, 2)), vocab_size, LoneGroup())
    hidden = torch.tensor([[0.0, 1.0], [1.0, 0.0], [0.5, 0.5], [2.0, 0.0], [0.0, 3.0], [1.0, 1.0]])
    reader = KeepingReader(1, 2, 3, 4, 0)

    logits, _ = head(hidden, replace(batch_of(6, [5], []), also_reads=reader))

    assert [len(part) for part in reader.logits] == [2, 2, 1]
    assert torch.cat(reader.logits)[:, 1].tolist() == [2.0, 2.5, 4.0, 9.0, 3.0]
    assert logits[:, 1].tolist() == [5.0]


@settings(max_examples=40)
@given(
    vocab_size=st.one_of(st.integers(1, 200), st.just(1025)),
    num_pairs=st.integers(1, 20),
    num_rows=st.integers(1, 80),
    is_coarse=st.booleans(),
    make_head=st.sampled_from([plain, native]),
    data=st.data(),
)
def test_the_likeliest_is_the_lowest_id_of_the_greatest_logit(
    vocab_size: int, num_pairs: int, num_rows: int, is_coarse: bool, make_head: MakeHead, data: st.DataObject
) -> None:
    random = torch.Generator().manual_seed(data.draw(st.integers(0, 1000)))
    weight = torch.randn(vocab_size, 2 * num_pairs, generator=random).bfloat16()
    hidden = torch.randn(num_rows, 2 * num_pairs, generator=random).bfloat16()
    if is_coarse:  # many are equal
        weight, hidden = weight.sign(), hidden.sign()
    for row, value in data.draw(st.lists(st.tuples(st.integers(0, num_rows - 1), st.sampled_from(ODD)))):
        hidden[row, 0] = value
    head = LmHead(NO_NORM, make_head(weight), vocab_size, LoneGroup())
    everything = head(hidden, batch_of(num_rows, list(range(num_rows)), [])).logits
    order = torch.randperm(num_rows, generator=random).tolist()
    num_greedy = data.draw(st.integers(0, num_rows))
    greedy, others = order[:num_greedy], order[num_greedy:]
    logits, likeliest = head(hidden, batch_of(num_rows, others, greedy))
    assert likeliest.tolist() == find_likeliest(everything[greedy])[1].tolist()
    torch.testing.assert_close(logits, everything[others], rtol=0, atol=0, equal_nan=True)


ODD = (torch.nan, torch.inf, -torch.inf, 3e38, 0.0)


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("make_head", [plain, native])
def test_ranks_find_what_one_finds(make_head: MakeHead, size: int, tmp_path: Path) -> None:
    random = torch.Generator().manual_seed(0)
    for vocab_size in (1, 4, 131):  # of one and of four, a last rank has none
        weight = torch.randn(vocab_size, 6, generator=random).sign().bfloat16()
        hidden = torch.randn(9, 6, generator=random).sign().bfloat16()
        hidden[3] = torch.nan
        batch = batch_of(9, [8, 0], [7, 1, 2, 6, 3])

        def run_rank(group: TpGroup, *, weight: torch.Tensor = weight) -> list[list[float]]:
            span = padded_span(len(weight), group.rank)
            head = LmHead(NO_NORM, make_head(weight[slice(*span)]), len(weight), group)
            return [part.tolist() for part in head(hidden, batch)]  # noqa: B023

        alone = [
            part.tolist()
            for part in LmHead(NO_NORM, make_head(weight), vocab_size, LoneGroup())(hidden, batch)
        ]
        folder = tmp_path / str(vocab_size)
        folder.mkdir()
        assert run_in_threads(size, folder, run_rank) == [alone] * size
