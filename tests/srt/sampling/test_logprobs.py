import json
import math

import pytest
import torch

from srt.sampling.logprobs import FLOOR, Found, LogprobReader, Wanted, find_logprobs

VOCAB_SIZE = 500


def random_logits(num_rows: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(num_rows, VOCAB_SIZE, generator=torch.Generator().manual_seed(seed)) * 5


def test_values_are_the_log_softmax_of_float64() -> None:
    logits = random_logits(6)
    wanted = [Wanted(token_id=row * 7, num_top=row, asked_ids=tuple(range(row))) for row in range(6)]
    expected = torch.log_softmax(logits.double(), dim=1)

    for row, found in enumerate(find_logprobs(logits, wanted)):
        assert found.logprob == pytest.approx(float(expected[row, row * 7]), abs=1e-6)
        ranked = expected[row].sort(descending=True)
        assert [token_id for token_id, _ in found.top] == ranked.indices[:row].tolist()
        assert [value for _, value in found.top] == pytest.approx(ranked.values[:row].tolist(), abs=1e-6)
        assert found.asked == pytest.approx(expected[row, :row].tolist(), abs=1e-6)


def test_a_row_is_told_alike_alone_and_among_others() -> None:
    logits = random_logits(9)
    wanted = [Wanted(row, row % 4, (row, 3)) for row in range(9)]
    alone = [find_logprobs(logits[row : row + 1], wanted[row : row + 1])[0] for row in range(9)]
    assert find_logprobs(logits, wanted) == alone


def test_the_logits_stay_as_they_are() -> None:
    logits = random_logits(2)
    before = logits.clone()
    find_logprobs(logits, [Wanted(1, 3)] * 2)
    assert torch.equal(logits, before)


@pytest.mark.parametrize("num_top", [1, 2, 3, 7, 400, 600])
def test_equally_likely_tokens_come_by_id_and_the_lowest_stay(num_top: int) -> None:
    # Quarters: bfloat16 models have many ties.
    logits = (random_logits(4) / 2).round() / 4
    for row, found in enumerate(find_logprobs(logits, [Wanted(0, num_top)] * 4)):
        values = logits[row].tolist()
        by_rank = sorted(range(VOCAB_SIZE), key=lambda token_id: (-values[token_id], token_id))
        assert [token_id for token_id, _ in found.top] == by_rank[:num_top]


def test_what_is_impossible_has_the_floor_and_json_can_say_it() -> None:
    logits = random_logits(5)
    logits[0, 3] = -torch.inf
    logits[1, 3] = torch.nan
    logits[2, 3] = torch.inf
    logits[3] = -torch.inf
    logits[4] = torch.nan
    founds = find_logprobs(logits, [Wanted(3, 2, (4,))] * 5)

    assert [found.logprob for found in founds] == [FLOOR, FLOOR, 0.0, FLOOR, FLOOR]
    assert founds[2].top[0] == (3, 0.0)
    assert founds[2].top[1][1] == FLOOR
    assert founds[1].asked == pytest.approx([float(torch.log_softmax(no_nan(logits[1]), 0)[4])], abs=1e-6)
    json.dumps(founds, allow_nan=False)


def no_nan(row: torch.Tensor) -> torch.Tensor:
    return row.nan_to_num(nan=-torch.inf).double()


def test_low_precision_logits_are_summed_precisely() -> None:
    logits = torch.zeros(1, 100_000, dtype=torch.bfloat16)
    (found,) = find_logprobs(logits, [Wanted(5)])
    assert found.logprob == pytest.approx(-math.log(100_000), abs=1e-9)


def test_a_reader_finds_the_same_in_slices() -> None:
    logits = random_logits(7)
    wanted = [Wanted(row, 2, (1,)) for row in range(7)]
    reader = LogprobReader(torch.arange(7), wanted)
    for start, end in [(0, 3), (3, 4), (4, 7)]:
        reader.read(logits[start:end])
    assert reader.found == find_logprobs(logits, wanted)


def test_a_reader_that_wants_nothing_keeps_nothing() -> None:
    reader = LogprobReader(torch.arange(7), None)
    reader.read(random_logits(7))
    assert reader.found == []


def test_nothing_wanted_is_nothing_found() -> None:
    assert find_logprobs(random_logits(1), [Wanted(2)])[0][1:] == Found(0.0, [], [])[1:]
