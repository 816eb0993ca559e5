"""Scores: what is asked of the engine, and what becomes of its logprobs."""

import math
from typing import Any

import msgspec
import pytest

from srt.engine_client import GenerateChunk, LogprobOptions, Logprobs, TextPrompt, TokenPrompt
from tests.fakes.engine_client import LENGTH, FakeEngineClient, chunk
from tests.fakes.http_world import error_of, post

pytestmark = pytest.mark.anyio

BODY: dict[str, Any] = {"query": "2+2=4? ", "items": ["yes or no: ", "say: "], "label_token_ids": [121, 110]}


def scored(index: int, *logprobs: float) -> GenerateChunk:
    """What the engine says of one item, whose labels have these logprobs."""
    of_token = Logprobs(token_ids=[120], logprobs=[-0.5], top=[[]], asked=[list(logprobs)])
    return msgspec.structs.replace(chunk("x", index=index, finish=LENGTH), logprobs=of_token)


async def ask(body: dict[str, Any], *rows: tuple[float, ...]) -> tuple[Any, FakeEngineClient]:
    client = FakeEngineClient([[scored(i, *row) for i, row in enumerate(rows)]])
    response = await post(client, "/v1/score", body)
    assert response.status_code == 200, response.text
    return response.json(), client


async def refusal(body: dict[str, Any]) -> Any:
    client = FakeEngineClient()
    response = await post(client, "/v1/score", body)
    assert response.status_code == 400
    assert client.requests == []
    return error_of(response)


async def test_a_score_is_the_labels_probability() -> None:
    answer, _ = await ask(BODY, (math.log(0.25), math.log(0.5)), (math.log(0.125), -1000.0))
    assert answer["scores"] == [[pytest.approx(0.25), pytest.approx(0.5)], [pytest.approx(0.125), 0.0]]
    assert answer["object"] == "scoring"
    assert answer["model"] == "tiny"
    assert "token_logprobs" not in answer


async def test_with_softmax_the_labels_share_one_at_the_temperature() -> None:
    body = {**BODY, "apply_softmax": True, "return_token_logprobs": True}
    answer, _ = await ask(body, (-1.0, -3.0), (-1000.0, -1000.0))
    assert answer["scores"] == [
        [pytest.approx(0.8808, abs=1e-4), pytest.approx(0.1192, abs=1e-4)],
        [0.5, 0.5],
    ]
    assert answer["token_logprobs"] == [[-1.0, -3.0], [-1000.0, -1000.0]]
    warm, _ = await ask({**body, "temperature": 2.0}, (-1.0, -3.0), (-1.0, -1.0))
    assert warm["scores"][0] == [pytest.approx(0.7311, abs=1e-4), pytest.approx(0.2689, abs=1e-4)]


async def test_labels_that_cannot_come_are_zeros_and_no_nan() -> None:
    answer, _ = await ask({**BODY, "apply_softmax": True, "items": "one"}, (-math.inf, -math.inf))
    assert answer["scores"] == [[0.5, 0.5]]


@pytest.mark.parametrize(
    ("body", "prompts"),
    [
        ({"query": "q", "items": ["a", "b"]}, [TextPrompt("qa"), TextPrompt("qb")]),
        ({"query": "q", "items": ["a", "b"], "item_first": True}, [TextPrompt("aq"), TextPrompt("bq")]),
        ({"query": "q", "items": "ab"}, [TextPrompt("qab")]),
        ({"query": [1], "items": [[2], [3, 4]]}, [TokenPrompt([1, 2]), TokenPrompt([1, 3, 4])]),
    ],
)
async def test_query_and_item_are_one_prompt(body: dict[str, Any], prompts: list[Any]) -> None:
    rows = [(-1.0,)] * len(prompts)
    _, client = await ask({**body, "label_token_ids": [7]}, *rows)
    (request,) = client.requests
    assert request.prompts == prompts
    assert [params.max_new_tokens for params in request.sampling] == [1] * len(prompts)
    assert list(request.logprobs) == [LogprobOptions(token_ids=(7,))] * len(prompts)


async def test_each_item_may_have_its_own_labels() -> None:
    answer, client = await ask({**BODY, "label_token_ids": [[1], [2, 3]]}, (0.0,), (0.0, -math.inf))
    assert [options and options.token_ids for options in client.requests[0].logprobs] == [(1,), (2, 3)]
    assert answer["scores"] == [[1.0], [1.0, 0.0]]


@pytest.mark.parametrize(
    ("change", "param"),
    [
        ({"items": []}, "items"),
        ({"items": [[1]]}, "items[0]"),
        ({"query": [1], "items": [[2], "b"]}, "items[1]"),
        ({"items": None}, "items"),
        ({"label_token_ids": []}, "label_token_ids"),
        ({"label_token_ids": [[], []]}, "label_token_ids"),
        ({"label_token_ids": [256]}, "label_token_ids"),
        ({"label_token_ids": [-1]}, "label_token_ids"),
        ({"label_token_ids": [1, [2]]}, "label_token_ids"),
        ({"label_token_ids": [[1]]}, "label_token_ids"),
        ({"label_token_ids": [1] * 1025}, "label_token_ids"),
        ({"label_token_ids": [1] * 1000, "items": ["x"] * 1001}, "items"),
        ({"temperature": 0.5}, "temperature"),
        ({"temperature": 0, "apply_softmax": True}, "temperature"),
        ({"return_pooled_hidden_states": True}, "return_pooled_hidden_states"),
        ({"rid": ""}, "rid"),
    ],
)
async def test_what_makes_no_sense_is_refused_by_name(change: dict[str, Any], param: str) -> None:
    error = await refusal({**BODY, **change})
    assert error["param"] == param
