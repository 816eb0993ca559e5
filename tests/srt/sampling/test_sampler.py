from typing import Any

import numpy as np
import pytest
import torch

from srt.sampling.batch_params import SampleRow
from srt.sampling.params import SamplingParams
from srt.sampling.sampler import NO_TOKEN, Sampler
from tests.srt.sampling.reference_distribution import changed_settings, penalised, probabilities

VOCAB_SIZE = 1013  # odd, so that rows begin at every alignment

GREEDY = SamplingParams(temperature=0.0, seed=1)
HOT = SamplingParams(temperature=2.0, seed=2)
MIXED = [
    GREEDY,
    HOT,
    SamplingParams(seed=3, top_k=20),
    SamplingParams(seed=4, top_p=0.9),
    SamplingParams(seed=5, min_p=0.05),
    SamplingParams(seed=6, temperature=0.7, top_k=50, top_p=0.95),
    SamplingParams(seed=7, top_k=1, temperature=5.0),
    SamplingParams(seed=8, logit_bias=((3, 4.0), (9, -100.0))),
    SamplingParams(seed=-9, frequency_penalty=0.5, repetition_penalty=1.2),
]


@pytest.fixture
def sampler() -> Sampler:
    return Sampler(VOCAB_SIZE)


def random_logits(num_rows: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(num_rows, VOCAB_SIZE, generator=torch.Generator().manual_seed(seed)) * 3


def row(params: SamplingParams, position: int = 0, **more: Any) -> SampleRow:
    if params.has_penalties:
        more |= {"seen_ids": np.array([1, 5, 9]), "seen_output_counts": np.array([0, 2, 1])}
    return SampleRow(params=params, position=position, **more)


def test_greedy_rows_get_the_lowest_id_of_the_greatest_logit(sampler: Sampler) -> None:
    logits = random_logits(3)
    logits[1, [40, 700]] = 99.0
    expected = logits.numpy().argmax(axis=1)
    assert expected[1] == 40
    assert sampler.sample(logits, [row(GREEDY)] * 3).tolist() == expected.tolist()


def test_a_row_does_not_depend_on_the_batch_around_it(sampler: Sampler) -> None:
    rows = [row(params, position) for position in range(20) for params in MIXED]
    logits = random_logits(len(rows))
    alone = [int(sampler.sample(logits[i : i + 1].clone(), [rows[i]])[0]) for i in range(len(rows))]
    assert sampler.sample(logits.clone(), rows).tolist() == alone
    order = np.random.default_rng(0).permutation(len(rows))
    shuffled = sampler.sample(logits[torch.from_numpy(order)], [rows[i] for i in order])
    assert shuffled.tolist() == [alone[i] for i in order]
    some = order[:37]
    part = sampler.sample(logits[torch.from_numpy(some)], [rows[i] for i in some])
    assert part.tolist() == [alone[i] for i in some]


def test_greedy_rows_are_the_same_beside_hot_ones(sampler: Sampler) -> None:
    logits = random_logits(20)
    rows = [row(GREEDY if i % 2 else HOT, i) for i in range(20)]
    tokens = sampler.sample(logits.clone(), rows)
    assert tokens[1::2].tolist() == logits[1::2].argmax(dim=1).tolist()


def test_seed_and_position_fix_the_token_and_both_matter(sampler: Sampler) -> None:
    logits = torch.zeros(1, VOCAB_SIZE)

    def tokens_of(seed: int) -> list[int]:
        params = SamplingParams(seed=seed, temperature=1.2)
        return [int(sampler.sample(logits.clone(), [row(params, position)])[0]) for position in range(8)]

    assert tokens_of(7) == tokens_of(7)
    assert tokens_of(7) != tokens_of(8)
    assert len(set(tokens_of(7))) > 4


@pytest.mark.parametrize(
    "params",
    [SamplingParams(seed=11), SamplingParams(seed=12, top_p=0.8), SamplingParams(seed=13, top_k=12)],
    ids=changed_settings,
)
def test_tokens_are_drawn_as_often_as_their_probability_says(params: SamplingParams) -> None:
    num_draws, vocab_size = 20_000, 40
    logits = torch.randn(vocab_size, generator=torch.Generator().manual_seed(2))
    rows = [row(params, position) for position in range(num_draws)]
    tokens = Sampler(vocab_size).sample(logits.repeat(num_draws, 1), rows)
    expected = probabilities(logits.numpy(), params) * num_draws
    counts = np.bincount(tokens, minlength=vocab_size)
    possible = expected > 0
    assert counts[~possible].sum() == 0
    chi_square = ((counts - expected)[possible] ** 2 / expected[possible]).sum()
    degrees = possible.sum() - 1
    assert chi_square < degrees + 4 * np.sqrt(2 * degrees)


def test_greedy_with_penalties_follows_the_reference_for_many_steps(sampler: Sampler) -> None:
    params = SamplingParams(
        temperature=0.0, frequency_penalty=0.7, presence_penalty=0.1, repetition_penalty=1.1
    )
    logits, prompt, output, expected = random_logits(1, seed=4), [4, 8], list[int](), list[int]()
    for position in range(2, 60):
        expected.append(int(penalised(logits[0].numpy(), params, prompt, expected).argmax()))
        seen = np.array(sorted({*prompt, *output}))
        counts = np.array([output.count(token) for token in seen.tolist()])
        step = SampleRow(params=params, position=position, seen_ids=seen, seen_output_counts=counts)
        output.append(int(sampler.sample(logits.clone(), [step])[0]))
    assert output == expected
    assert len(set(output)) > 10


def test_a_biased_token_is_forced_in_its_own_row_only(sampler: Sampler) -> None:
    logits = random_logits(2)
    biased = SamplingParams(temperature=0.0, logit_bias=((77, 100.0),))
    tokens = sampler.sample(logits.clone(), [row(biased), row(GREEDY)])
    assert tokens.tolist() == [77, int(logits[1].argmax())]


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_ban_wins_over_a_bias(sampler: Sampler, temperature: float) -> None:
    params = SamplingParams(temperature=temperature, seed=3, logit_bias=((77, 100.0), (78, 90.0)))
    assert sampler.sample(random_logits(1), [row(params, banned_ids=np.array([77]))]).tolist() == [78]


@pytest.mark.parametrize("top_k", [-1, 0, VOCAB_SIZE, 100_000_000])
def test_top_k_of_everything_is_off(sampler: Sampler, top_k: int) -> None:
    logits = random_logits(1)
    rows = [row(SamplingParams(seed=5, temperature=0.8, top_k=k), 3) for k in (top_k, -1)]
    tokens = sampler.sample(logits.repeat(2, 1), rows)
    assert tokens[0] == tokens[1]


def test_a_row_of_nan_costs_the_others_nothing(sampler: Sampler) -> None:
    rows = [row(params, 5) for params in [*MIXED, GREEDY, HOT]]
    logits = random_logits(len(rows))
    clean = sampler.sample(logits.clone(), rows)
    logits[-2:] = torch.nan
    tokens = sampler.sample(logits, rows)
    assert tokens[:-2].tolist() == clean[:-2].tolist()
    assert tokens[-2:].tolist() == [0, 0]


@pytest.mark.parametrize("params", [GREEDY, HOT], ids=["greedy", "hot"])
def test_nan_and_infinity_among_logits_leave_the_rest_usable(
    sampler: Sampler, params: SamplingParams
) -> None:
    logits = torch.full((3, VOCAB_SIZE), -torch.inf)
    logits[0, 5], logits[0, 6] = torch.nan, 1.0
    logits[1, 7], logits[1, 8] = torch.inf, 1.0
    rows = [row(params, position) for position in range(3)]
    assert sampler.sample(logits, rows).tolist() == [6, 7, 0]


def test_logits_wider_than_the_vocabulary_are_cut(sampler: Sampler) -> None:
    wide = torch.zeros(2, VOCAB_SIZE + 11)
    wide[:, VOCAB_SIZE:] = 50.0
    wide[:, 4] = 40.0
    assert sampler.sample(wide, [row(GREEDY), row(HOT)]).tolist() == [4, 4]


def test_logits_of_an_inference_tensor_can_be_edited(sampler: Sampler) -> None:
    with torch.inference_mode():
        logits = torch.zeros(1, VOCAB_SIZE)
    tokens = sampler.sample(logits, [row(SamplingParams(temperature=0.0, logit_bias=((6, 1.0),)))])
    assert tokens.tolist() == [6]


def test_no_rows_give_no_tokens(sampler: Sampler) -> None:
    assert sampler.sample(torch.empty(0, VOCAB_SIZE), []).tolist() == []


def allowed(*token_ids: int) -> np.ndarray[Any, np.dtype[np.int32]]:
    flags = np.zeros(-(-VOCAB_SIZE // 32) * 32, np.bool_)
    flags[list(token_ids)] = True
    return np.packbits(flags, bitorder="little").view(np.int32)


@pytest.mark.parametrize("params", MIXED, ids=str)
def test_nothing_but_what_is_allowed_is_chosen_whatever_stands_beside_it(
    sampler: Sampler, params: SamplingParams
) -> None:
    logits = random_logits(3)
    free = row(GREEDY)
    token_ids = sampler.sample(logits.clone(), [free, row(params, allowed=allowed(3, 9, 1000)), free])
    assert token_ids[1] in (3, 9, 1000)
    assert token_ids[[0, 2]].tolist() == sampler.sample(logits.clone(), [free, free, free])[[0, 2]].tolist()


@pytest.mark.parametrize("params", [GREEDY, HOT])
@pytest.mark.parametrize("value", [-np.inf, np.nan])
def test_where_nothing_that_is_allowed_is_possible_there_is_no_token(
    sampler: Sampler, params: SamplingParams, value: float
) -> None:
    logits = random_logits(2)
    logits[0, [0, 7]] = value
    token_ids = sampler.sample(logits, [row(params, allowed=allowed(0, 7)), row(params, allowed=allowed())])
    assert token_ids.tolist() == [NO_TOKEN, NO_TOKEN]


def test_a_banned_token_stays_banned_where_a_grammar_allows_it(sampler: Sampler) -> None:
    only = {"banned_ids": np.array([0, 7]), "allowed": allowed(0, 7)}
    assert sampler.sample(random_logits(1), [row(GREEDY, **only)]).tolist() == [NO_TOKEN]
