"""Tokens that the native kernels choose, against the sampler that runs everywhere."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from srt.layers.native.build import ANY_PROCESSOR, THIS_PROCESSOR, build_library
from srt.layers.native.load import load_library
from srt.layers.native.sampling import NativeChooser
from srt.sampling.batch_params import SampleRow
from srt.sampling.exponential_race import draw
from srt.sampling.params import SamplingParams
from srt.sampling.sampler import NO_TOKEN, Sampler
from srt.sampling.seeded_noise import exponential_noise, noise_keys
from tests.srt.sampling.reference_distribution import changed_settings, probabilities


@pytest.fixture(scope="module", params=["this processor", "any processor"])
def choose(request: pytest.FixtureRequest) -> NativeChooser:
    flags = THIS_PROCESSOR if request.param == "this processor" else ANY_PROCESSOR
    return NativeChooser(load_library(build_library(flags)))


def random_logits(
    num_rows: int, vocab_size: int, spread: float, seed: int, step: float = 0.0
) -> torch.Tensor:
    """Normal logits; with `step` rounded to multiples of it, so that many are equal."""
    logits = torch.randn(num_rows, vocab_size, generator=torch.Generator().manual_seed(seed)) * spread
    return torch.round(logits / step) * step if step else logits


def bits_of(flags: npt.NDArray[np.bool_]) -> npt.NDArray[np.int32]:
    padded = np.zeros(-(-len(flags) // 32) * 32, np.bool_)
    padded[: len(flags)] = flags
    return np.packbits(padded, bitorder="little").view(np.int32)


ONE_ROW = st.fixed_dictionaries(
    {
        "seed": st.integers(-(2**63), 2**63 - 1),
        "temperature": st.sampled_from([0.0, 1e-6, 0.05, 0.7, 1.0, 1.0, 1.3, 100.0, 1e30, 1e300]),
        "top_k": st.sampled_from([-1, -1, 0, 1, 2, 5, 50, 700, 10**8]),
        "top_p": st.sampled_from([1.0, 1.0, 1e-30, 1e-6, 0.1, 0.5, 0.9, 0.999, 1 - 2**-53]),
        "min_p": st.sampled_from([0.0, 0.0, 1e-60, 1e-5, 0.05, 0.5, 1.0]),
    }
)
ODD = st.sampled_from([np.nan, np.inf, -np.inf, 3e38, -3e38, 0.0])


@settings(max_examples=250)
@given(
    params=st.lists(ONE_ROW, min_size=1, max_size=6),
    position=st.integers(0, 2**31),
    vocab_size=st.one_of(st.integers(1, 200), st.sampled_from([1024, 1025, 4099])),
    spread=st.sampled_from([0.0, 1e-3, 1.0, 4.0, 30.0, 1e37]),
    step=st.sampled_from([0.0, 0.5, 4.0]),
    odd=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 4098), ODD), max_size=4),
    share_allowed=st.sampled_from([None, None, 0.0, 0.01, 0.5, 1.0]),
    dtype=st.sampled_from([torch.float32, torch.bfloat16]),
    seed=st.integers(0, 1000),
)
def test_tokens_are_those_of_the_sampler_that_runs_everywhere(
    choose: NativeChooser,
    params: list[dict[str, Any]],
    position: int,
    vocab_size: int,
    spread: float,
    step: float,
    odd: list[tuple[int, int, float]],
    share_allowed: float | None,
    dtype: torch.dtype,
    seed: int,
) -> None:
    logits = random_logits(len(params), vocab_size + 3, spread, seed, step)
    for row, token_id, value in odd:
        logits[row % len(params), token_id % vocab_size] = value
    logits = logits.to(dtype)
    allowed = None
    if share_allowed is not None:
        allowed = bits_of(np.random.default_rng(seed).random(vocab_size) < share_allowed)
    rows = [
        SampleRow(
            params=SamplingParams(**one), position=position + i, allowed=allowed if i % 2 == 0 else None
        )
        for i, one in enumerate(params)
    ]
    expected = Sampler(vocab_size).sample(logits.clone(), rows)
    assert Sampler(vocab_size, choose).sample(logits.clone(), rows).tolist() == expected.tolist()


CUTS = [
    SamplingParams(),
    SamplingParams(temperature=0.3),
    SamplingParams(temperature=3.0),
    SamplingParams(top_k=5),
    SamplingParams(top_k=700, temperature=2.0),
    SamplingParams(top_p=0.9),
    SamplingParams(top_p=0.1),
    SamplingParams(top_p=0.999, temperature=5.0),
    SamplingParams(min_p=0.1),
    SamplingParams(top_k=3, top_p=0.99, min_p=0.01),
    SamplingParams(top_k=100, top_p=0.95, min_p=0.2, temperature=1.5),
]


@pytest.mark.parametrize("params", CUTS, ids=changed_settings)
@pytest.mark.parametrize("spread", [0.01, 1.0, 6.0])
@pytest.mark.parametrize("step", [0.0, 0.5])
def test_every_draw_is_the_one_that_the_reference_sees_win(
    choose: NativeChooser, params: SamplingParams, spread: float, step: float
) -> None:
    logits = random_logits(1, 1013, spread, seed=3, step=step)
    expected = probabilities(logits[0].numpy(), params)
    rows = [SampleRow(params=with_seed(params, 1), position=position) for position in range(60)]
    ids = np.arange(1013, dtype=np.uint32)
    token_ids = choose(logits.expand(60, -1), rows)
    for token, key in zip(token_ids, noise_keys([1] * 60, range(60)), strict=True):
        with np.errstate(divide="ignore"):
            arrivals = exponential_noise(key, ids) / expected
        assert expected[token] > 0
        # The reference may round otherwise by a hair; nobody may be ahead by more.
        assert arrivals[token] <= arrivals.min() * (1 + 1e-5)


def with_seed(params: SamplingParams, seed: int) -> SamplingParams:
    return SamplingParams(
        seed=seed, temperature=params.temperature, top_k=params.top_k, top_p=params.top_p, min_p=params.min_p
    )


@pytest.mark.parametrize("vocab_size", [49_152, 151_936])
def test_in_vocabularies_of_models_tokens_are_the_same(choose: NativeChooser, vocab_size: int) -> None:
    logits = random_logits(len(CUTS), vocab_size, 3.0, seed=5)
    rows = [SampleRow(params=with_seed(params, i), position=7) for i, params in enumerate(CUTS)]
    expected = [
        draw(row_logits, row.params, key)
        for row_logits, row, key in zip(
            logits, rows, noise_keys(range(len(rows)), [7] * len(rows)), strict=True
        )
    ]
    assert choose(logits, rows).tolist() == expected


def test_a_token_depends_neither_on_the_rows_beside_it_nor_on_the_threads(choose: NativeChooser) -> None:
    logits = random_logits(40, 1013, 3.0, seed=6)
    rows = [SampleRow(params=with_seed(CUTS[i % len(CUTS)], i), position=i) for i in range(40)]
    alone = [int(choose(logits[i : i + 1], rows[i : i + 1])[0]) for i in range(40)]
    num_threads = torch.get_num_threads()
    try:
        for count in (1, 2, 3):
            torch.set_num_threads(count)
            assert choose(logits, rows).tolist() == alone
            assert choose(logits.flip(0), rows[::-1]).tolist() == alone[::-1]
    finally:
        torch.set_num_threads(num_threads)


def test_the_logits_stay_as_they_are_and_rows_may_lie_apart(choose: NativeChooser) -> None:
    wide = random_logits(3, 300, 2.0, seed=7)
    wide[1, 4] = torch.nan
    before = wide.clone()
    allowed = bits_of(np.arange(200) % 3 == 0)
    rows = [SampleRow(params=with_seed(CUTS[9], i), position=i, allowed=allowed) for i in range(3)]
    apart = choose(wide[:, :200], rows)
    assert torch.equal(wide.nan_to_num(0.5), before.nan_to_num(0.5))
    assert apart.tolist() == choose(wide[:, :200].contiguous(), rows).tolist()


def test_ids_that_a_short_mask_does_not_name_are_not_allowed(choose: NativeChooser) -> None:
    logits = torch.zeros(2, 100)
    logits[:, 90] = 5.0
    rows = [
        SampleRow(
            params=SamplingParams(temperature=0.0, seed=0), position=0, allowed=np.array(bits, np.int32)
        )
        for bits in ([8], [])
    ]
    assert choose(logits, rows).tolist() == [3, NO_TOKEN]


def test_no_rows_give_no_tokens(choose: NativeChooser) -> None:
    assert choose(torch.empty(0, 100), []).tolist() == []
