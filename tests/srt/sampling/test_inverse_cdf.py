import numpy as np
import pytest
import torch

from srt.sampling.inverse_cdf import draw
from srt.sampling.params import SamplingParams
from tests.srt.sampling.reference_distribution import changed_settings, probabilities

NEARLY_ONE = 1.0 - 2.0**-53
CUTS = [
    SamplingParams(),
    SamplingParams(temperature=0.3),
    SamplingParams(temperature=3.0),
    SamplingParams(top_k=1),
    SamplingParams(top_k=5),
    SamplingParams(top_k=700, temperature=2.0),
    SamplingParams(top_k=10_000),
    SamplingParams(top_p=0.9),
    SamplingParams(top_p=0.1),
    SamplingParams(top_p=0.999, temperature=5.0),
    SamplingParams(top_p=0.5, temperature=100.0),
    SamplingParams(min_p=0.1),
    SamplingParams(top_k=40, top_p=0.8),
    SamplingParams(top_k=3, top_p=0.99, min_p=0.01),
    SamplingParams(top_k=100, top_p=0.95, min_p=0.2, temperature=1.5),
]


def random_logits(vocab_size: int, spread: float, seed: int, step: float | None = None) -> torch.Tensor:
    """Normal logits; with `step` rounded to multiples of it, so that many are equal."""
    logits = torch.randn(vocab_size, generator=torch.Generator().manual_seed(seed)) * spread
    return logits if step is None else torch.round(logits / step) * step


@pytest.mark.parametrize("params", CUTS, ids=changed_settings)
@pytest.mark.parametrize("spread", [0.01, 1.0, 6.0])
@pytest.mark.parametrize("step", [None, 0.5])
def test_every_draw_is_where_the_reference_puts_it(
    params: SamplingParams, spread: float, step: float | None
) -> None:
    logits = random_logits(1013, spread, seed=3, step=step)
    sums = np.cumsum(probabilities(logits.numpy(), params))
    numbers = np.linspace(0.0, NEARLY_ONE, 60)
    tokens = np.array([draw(logits, params, number) for number in numbers])
    # The reference may round otherwise by a hair; beyond that hair the interval must hold the number.
    below = np.where(tokens > 0, sums[tokens - 1], 0.0)
    assert (below - 1e-6 <= numbers).all()
    assert (numbers <= sums[tokens] + 1e-6).all()
    assert (sums[tokens] - below > 0).all()


@pytest.mark.parametrize("params", CUTS, ids=changed_settings)
@pytest.mark.parametrize("step", [None, 0.25])
def test_exactly_the_tokens_of_the_reference_can_be_drawn(params: SamplingParams, step: float | None) -> None:
    logits = random_logits(97, 2.0, seed=5, step=step)
    expected = probabilities(logits.numpy(), params)
    ends = np.cumsum(expected)
    middles = (ends - expected / 2)[expected > 1e-6]
    drawn = [draw(logits, params, middle) for middle in middles]
    assert drawn == np.flatnonzero(expected > 1e-6).tolist()


def test_of_equal_logits_at_the_cut_the_lowest_ids_stay() -> None:
    logits = torch.tensor([1.0, 5.0, 1.0, 1.0, 1.0])
    params = SamplingParams(top_k=3, temperature=100.0)
    assert {draw(logits, params, number) for number in np.linspace(0, NEARLY_ONE, 100)} == {0, 1, 2}


def test_top_p_counts_what_lies_before_a_token() -> None:
    logits = torch.log(torch.tensor([0.5, 0.25, 0.25]))
    numbers = np.linspace(0, NEARLY_ONE, 50)
    assert {draw(logits, SamplingParams(top_p=0.49), number) for number in numbers} == {0}
    assert {draw(logits, SamplingParams(top_p=0.51), number) for number in numbers} == {0, 1}
    assert {draw(logits, SamplingParams(top_p=0.76), number) for number in numbers} == {0, 1, 2}


def test_a_token_with_exactly_top_p_before_it_stays() -> None:
    numbers = np.linspace(0, NEARLY_ONE, 50)
    assert {draw(torch.zeros(4), SamplingParams(top_p=0.5), number) for number in numbers} == {0, 1, 2}


@pytest.mark.parametrize(
    "params",
    [
        SamplingParams(temperature=1e-6),
        SamplingParams(temperature=2.0, top_p=1e-9),
        SamplingParams(temperature=2.0, top_p=1e-30),
        SamplingParams(temperature=2.0, min_p=1.0),
        SamplingParams(temperature=5.0, top_k=1),
    ],
    ids=changed_settings,
)
def test_extreme_settings_draw_the_likeliest(params: SamplingParams) -> None:
    logits = random_logits(501, 1.0, seed=9)
    likeliest = int(logits.argmax())
    assert {draw(logits, params, number) for number in np.linspace(0, NEARLY_ONE, 20)} == {likeliest}


@pytest.mark.parametrize("temperature", [1e-6, 1.0, 1e30, 1e300])
@pytest.mark.parametrize("number", [0.0, 0.5, NEARLY_ONE])
def test_an_impossible_token_is_never_drawn(temperature: float, number: float) -> None:
    logits = torch.full((1000,), -torch.inf)
    logits[[100, 200, 300]] = 1.0
    token = draw(logits, SamplingParams(temperature=temperature), number)
    assert token == {0.0: 100, 0.5: 200, NEARLY_ONE: 300}[number]


@pytest.mark.parametrize("vocab_size", [1, 2, 3, 1000, 4096, 4097, 49_152, 262_144])
@pytest.mark.parametrize("lowest", [0.0, -1.0])
def test_numbers_at_both_ends_stay_in_the_vocabulary(vocab_size: int, lowest: float) -> None:
    logits = torch.linspace(lowest, 0.0, vocab_size)
    assert draw(logits, SamplingParams(), 0.0) == 0
    assert draw(logits, SamplingParams(), NEARLY_ONE) == vocab_size - 1


def test_drawing_leaves_the_logits_as_they_are() -> None:
    logits = random_logits(100, 1.0, seed=1)
    before = logits.clone()
    draw(logits, SamplingParams(top_p=0.5, top_k=9, min_p=0.1), 0.5)
    assert torch.equal(logits, before)
