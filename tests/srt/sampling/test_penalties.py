import numpy as np
import pytest
import torch

from srt.sampling.batch_params import SampleRow
from srt.sampling.params import SamplingParams
from srt.sampling.penalties import apply_penalties
from tests.srt.sampling.reference_distribution import penalised

PROMPT = [3, 3, 7, 11]
OUTPUT = [7, 7, 7, 20, 21, 20]


def row_of(params: SamplingParams) -> SampleRow:
    seen = sorted(set(PROMPT + OUTPUT))
    return SampleRow(
        params=params,
        position=len(PROMPT + OUTPUT),
        seen_ids=np.array(seen),
        seen_output_counts=np.array([OUTPUT.count(token) for token in seen]),
    )


@pytest.mark.parametrize(
    "params",
    [
        SamplingParams(frequency_penalty=0.7),
        SamplingParams(frequency_penalty=-1.3),
        SamplingParams(presence_penalty=0.9),
        SamplingParams(repetition_penalty=1.8),
        SamplingParams(repetition_penalty=0.6),
        SamplingParams(frequency_penalty=0.7, presence_penalty=-0.4, repetition_penalty=1.1),
    ],
)
def test_penalised_logits_are_exactly_the_reference(params: SamplingParams) -> None:
    logits = torch.randn(64, generator=torch.Generator().manual_seed(1)) * 5
    expected = penalised(logits.numpy(), params, PROMPT, OUTPUT)
    apply_penalties(logits, row_of(params))
    assert np.array_equal(logits.numpy(), expected)


def test_repetition_counts_the_prompt_and_frequency_does_not() -> None:
    logits = torch.ones(64)
    apply_penalties(logits, row_of(SamplingParams(frequency_penalty=0.5, repetition_penalty=2.0)))
    assert logits[3] == 0.5  # in the prompt only
    assert logits[7] == -1.0  # three times in the output: 1 - 1.5, then doubled
    assert logits[0] == 1.0


def test_read_only_counts_are_accepted() -> None:
    row = row_of(SamplingParams(presence_penalty=1.0))
    assert row.seen_ids is not None
    row.seen_ids.flags.writeable = False
    logits = torch.zeros(64)
    apply_penalties(logits, row)
    assert logits[20] == -1.0


def test_without_tokens_seen_nothing_changes() -> None:
    logits = torch.ones(4)
    apply_penalties(logits, SampleRow(params=SamplingParams(presence_penalty=1.0), position=0))
    assert logits.tolist() == [1.0, 1.0, 1.0, 1.0]
