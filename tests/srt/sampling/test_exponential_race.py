import numpy as np
import pytest
import torch

from srt.sampling.exponential_race import draw
from srt.sampling.params import SamplingParams
from srt.sampling.seeded_noise import exponential_noise, noise_keys
from tests.srt.sampling.reference_distribution import changed_settings, probabilities

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


def draws(logits: torch.Tensor, params: SamplingParams, num_keys: int = 300) -> set[int]:
    return {draw(logits, params, key) for key in noise_keys([1] * num_keys, range(num_keys))}


@pytest.mark.parametrize("params", CUTS, ids=changed_settings)
@pytest.mark.parametrize("spread", [0.01, 1.0, 6.0])
@pytest.mark.parametrize("step", [None, 0.5])
def test_every_draw_is_the_one_that_the_reference_sees_win(
    params: SamplingParams, spread: float, step: float | None
) -> None:
    logits = random_logits(1013, spread, seed=3, step=step)
    expected = probabilities(logits.numpy(), params)
    ids = np.arange(len(logits), dtype=np.uint32)
    for key in noise_keys([1] * 60, range(60)):
        token = draw(logits, params, key)
        with np.errstate(divide="ignore"):
            arrivals = exponential_noise(key, ids) / expected
        assert expected[token] > 0
        # The reference may round otherwise by a hair; nobody may be ahead by more.
        assert arrivals[token] <= arrivals.min() * (1 + 1e-5)


@pytest.mark.parametrize("params", CUTS, ids=changed_settings)
@pytest.mark.parametrize("step", [None, 0.25])
def test_exactly_the_tokens_of_the_reference_can_be_drawn(params: SamplingParams, step: float | None) -> None:
    logits = random_logits(17, 1.0, seed=5, step=step)
    expected = probabilities(logits.numpy(), params)
    drawn = draws(logits, params, num_keys=3000)
    assert drawn <= set(np.flatnonzero(expected > 0).tolist())
    assert drawn >= set(np.flatnonzero(expected > 0.01).tolist())


def test_a_rounding_error_in_the_logits_almost_never_changes_a_draw() -> None:
    logits = random_logits(49_152, 1.0, seed=8)
    error = random_logits(49_152, 3e-5, seed=9)
    params, keys = SamplingParams(), noise_keys([1] * 200, range(200))
    # Along the cumulative distribution, one or two of these would.
    assert [draw(logits, params, key) for key in keys] == [draw(logits + error, params, key) for key in keys]


def test_of_equal_logits_at_the_cut_the_lowest_ids_stay() -> None:
    logits = torch.tensor([1.0, 5.0, 1.0, 1.0, 1.0])
    params = SamplingParams(top_k=3, temperature=100.0)
    assert draws(logits, params) == {0, 1, 2}


def test_top_p_counts_what_lies_before_a_token() -> None:
    logits = torch.log(torch.tensor([0.5, 0.25, 0.25]))
    assert draws(logits, SamplingParams(top_p=0.49)) == {0}
    assert draws(logits, SamplingParams(top_p=0.51)) == {0, 1}
    assert draws(logits, SamplingParams(top_p=0.76)) == {0, 1, 2}


def test_a_token_with_exactly_top_p_before_it_stays() -> None:
    assert draws(torch.zeros(4), SamplingParams(top_p=0.5)) == {0, 1, 2}


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
    assert draws(logits, params, num_keys=20) == {likeliest}


@pytest.mark.parametrize("temperature", [1e-6, 1.0, 1e30, 1e300])
def test_an_impossible_token_is_never_drawn(temperature: float) -> None:
    logits = torch.full((1000,), -torch.inf)
    logits[[100, 200, 300]] = 1.0
    assert draws(logits, SamplingParams(temperature=temperature), num_keys=60) == {100, 200, 300}


@pytest.mark.parametrize("vocab_size", [1, 2, 1000, 262_144])
def test_draws_stay_in_the_vocabulary(vocab_size: int) -> None:
    assert max(draws(torch.zeros(vocab_size), SamplingParams(), num_keys=20)) < vocab_size


def test_drawing_leaves_the_logits_as_they_are() -> None:
    logits = random_logits(100, 1.0, seed=1)
    before = logits.clone()
    draw(logits, SamplingParams(top_p=0.5, top_k=9, min_p=0.1), 5)
    assert torch.equal(logits, before)
