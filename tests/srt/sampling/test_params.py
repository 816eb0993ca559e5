import math
from typing import Any

import pytest

from srt.errors import InvalidRequest
from srt.sampling.params import (
    MAX_LOGIT_BIASES,
    MAX_N,
    MAX_STOP_STRING_CHARS,
    MAX_STOP_STRINGS,
    MAX_STOP_TOKEN_IDS,
    SamplingParams,
)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max_new_tokens", -1),
        ("max_new_tokens", 2**63),
        ("min_new_tokens", -1),
        ("temperature", -0.1),
        ("top_k", -2),
        ("top_p", 0.0),
        ("top_p", -0.1),
        ("top_p", 1.1),
        ("min_p", -0.1),
        ("min_p", 1.1),
        ("frequency_penalty", -2.1),
        ("frequency_penalty", 2.1),
        ("presence_penalty", -2.1),
        ("presence_penalty", 2.1),
        ("repetition_penalty", 0.0),
        ("repetition_penalty", 2.1),
        ("seed", 2**63),
        ("seed", -(2**63) - 1),
        ("n", 0),
        ("n", MAX_N + 1),
        ("stop", ("x",) * (MAX_STOP_STRINGS + 1)),
        ("stop", ("fine", "")),
        ("stop", ("x" * (MAX_STOP_STRING_CHARS + 1),)),
        ("stop_token_ids", (1,) * (MAX_STOP_TOKEN_IDS + 1)),
        ("logit_bias", tuple((i, 1.0) for i in range(MAX_LOGIT_BIASES + 1))),
        ("logit_bias", ((5, 1e9),)),
        ("logit_bias", ((5, math.nan),)),
        ("logit_bias", ((5, -math.inf),)),
    ],
)
def test_a_value_out_of_range_names_its_field(name: str, value: Any) -> None:
    with pytest.raises(InvalidRequest) as caught:
        SamplingParams(**{name: value})
    assert caught.value.param == name
    assert name in caught.value.message or name == "stop"


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize(
    "name", ["temperature", "top_p", "min_p", "frequency_penalty", "presence_penalty", "repetition_penalty"]
)
def test_what_is_not_finite_names_its_field(name: str, value: Any) -> None:
    with pytest.raises(InvalidRequest) as caught:
        SamplingParams(**{name: value})
    assert caught.value.param == name


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max_new_tokens", 0),
        ("max_new_tokens", None),
        ("temperature", 0.0),
        ("temperature", 100.0),
        ("top_k", -1),
        ("top_k", 0),
        ("top_k", 100_000_000),
        ("top_p", 1e-9),
        ("top_p", 1.0),
        ("min_p", 1.0),
        ("frequency_penalty", -2.0),
        ("presence_penalty", 2.0),
        ("repetition_penalty", 2.0),
        ("seed", -(2**63)),
        ("seed", 2**63 - 1),
        ("n", MAX_N),
        ("stop", ("x" * MAX_STOP_STRING_CHARS,) * MAX_STOP_STRINGS),
        ("stop_token_ids", (1,) * MAX_STOP_TOKEN_IDS),
        ("logit_bias", tuple((i, 1.0) for i in range(MAX_LOGIT_BIASES))),
        ("logit_bias", ((0, -100.0), (1, 100.0))),
    ],
)
def test_the_ends_of_each_range_are_valid(name: str, value: Any) -> None:
    assert getattr(SamplingParams(**{name: value}), name) == value


def test_more_tokens_than_the_most_are_refused() -> None:
    with pytest.raises(InvalidRequest, match="greater than") as caught:
        SamplingParams(min_new_tokens=11, max_new_tokens=10)
    assert caught.value.param == "min_new_tokens"


@pytest.mark.parametrize("name", ["stop_token_ids", "logit_bias"])
@pytest.mark.parametrize("token_id", [-1, 100])
def test_a_token_id_out_of_the_vocabulary_names_its_field(name: str, token_id: int) -> None:
    value: Any = (token_id,) if name == "stop_token_ids" else ((token_id, 1.0),)
    with pytest.raises(InvalidRequest) as caught:
        SamplingParams(**{name: value}).check_token_ids(vocab_size=100)
    assert caught.value.param == name


def test_ids_within_the_vocabulary_pass() -> None:
    SamplingParams(stop_token_ids=(0, 99), logit_bias=((0, 1.0), (99, 1.0))).check_token_ids(vocab_size=100)


@pytest.mark.parametrize(
    ("params", "is_greedy"),
    [
        (SamplingParams(temperature=0.0), True),
        (SamplingParams(temperature=0.0, seed=7), True),
        (SamplingParams(temperature=9e-7), True),
        (SamplingParams(temperature=1e-6), False),
        (SamplingParams(temperature=5.0, top_k=1), True),
        (SamplingParams(seed=7, temperature=1.2), False),
        (SamplingParams(), False),
    ],
)
def test_greedy_is_temperature_zero_or_a_choice_of_one(params: SamplingParams, is_greedy: bool) -> None:
    assert params.is_greedy is is_greedy


def test_penalties_are_on_when_one_is_not_neutral() -> None:
    assert not SamplingParams().has_penalties
    assert SamplingParams(frequency_penalty=0.1).has_penalties
    assert SamplingParams(presence_penalty=-0.1).has_penalties
    assert SamplingParams(repetition_penalty=1.1).has_penalties
