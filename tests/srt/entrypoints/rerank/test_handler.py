"""Reranking: the question that is put to the model, and the order of the answer."""

from typing import Any

import msgspec
import pytest

from srt.engine_client import ChatPrompt, LogprobOptions, Logprobs, TextPrompt
from tests.fakes.engine_client import LENGTH, MODEL_INFO, FakeEngineClient, chunk
from tests.fakes.http_world import error_of, post

pytestmark = pytest.mark.anyio

PATH = "/v1/rerank"
BODY: dict[str, Any] = {"query": "capital of France?", "documents": ["Rome", "Paris", "Nice"]}


def engine(*yes_logprobs: float, **options: Any) -> FakeEngineClient:
    """One that finds "yes" this likely for each document, and "no" always -1."""
    chunks = []
    for i, logprob in enumerate(yes_logprobs):
        of_token = Logprobs(token_ids=[120], logprobs=[-0.5], top=[[]], asked=[[logprob, -1.0]])
        chunks.append(msgspec.structs.replace(chunk("x", index=i, finish=LENGTH), logprobs=of_token))
    return FakeEngineClient([chunks], **options)


async def rank(body: dict[str, Any], client: FakeEngineClient) -> Any:
    response = await post(client, PATH, body)
    assert response.status_code == 200, response.text
    return response.json()


async def test_documents_come_best_first_with_a_score_their_place_and_their_text() -> None:
    ranked = await rank(BODY, engine(-3.0, -0.1, -1.0))
    assert [document["index"] for document in ranked] == [1, 2, 0]
    assert [document["document"] for document in ranked] == ["Paris", "Nice", "Rome"]
    assert [document["score"] for document in ranked] == [
        pytest.approx(0.7109, abs=1e-4),
        0.5,
        pytest.approx(0.1192, abs=1e-4),
    ]
    assert ranked[0]["meta_info"]["prompt_tokens"] == 5


async def test_top_n_and_return_documents() -> None:
    ranked = await rank({**BODY, "top_n": 2, "return_documents": False}, engine(-3.0, -0.1, -1.0))
    assert [document["index"] for document in ranked] == [1, 2]
    assert "document" not in ranked[0]


async def test_equal_scores_keep_the_order_of_the_request() -> None:
    ranked = await rank(BODY, engine(-2.0, -2.0, -2.0))
    assert [document["index"] for document in ranked] == [0, 1, 2]


async def test_the_question_is_the_one_that_rerankers_know_and_the_document_comes_last() -> None:
    client = engine(-1.0, -1.0, -1.0)
    await rank({**BODY, "instruct": "Find cities"}, client)
    (request,) = client.requests
    prompt = request.prompts[1]
    assert isinstance(prompt, ChatPrompt)
    assert prompt.messages[0]["role"] == "system"
    assert '"yes" or "no"' in prompt.messages[0]["content"]
    question = "<Instruct>: Find cities\n<Query>: capital of France?\n<Document>: Paris"
    assert prompt.messages[1:] == [{"role": "user", "content": question}]
    assert prompt.template_kwargs == {"enable_thinking": False}
    assert request.logprobs[1] == LogprobOptions(token_ids=(ord("y"), ord("n")))


async def test_without_a_chat_template_the_question_is_plain_text() -> None:
    model = msgspec.structs.replace(MODEL_INFO, has_chat_template=False)
    client = engine(-1.0, -1.0, -1.0, model_info=model)
    await rank(BODY, client)
    prompt = client.requests[0].prompts[0]
    assert isinstance(prompt, TextPrompt)
    assert prompt.text.endswith("<Document>: Rome\n\n<Answer>: ")


@pytest.mark.parametrize(
    ("change", "param"),
    [
        ({"documents": []}, "documents"),
        ({"documents": [{"text": "Rome"}]}, "documents"),
        ({"documents": None}, "documents"),
        ({"query": None}, "query"),
        ({"top_n": 0}, "top_n"),
        ({"documents": ["x"] * 8193}, "documents"),
        ({"lora_path": "x"}, "lora_path"),
    ],
)
async def test_what_makes_no_sense_is_refused_by_name(change: dict[str, Any], param: str) -> None:
    client = FakeEngineClient()
    response = await post(client, PATH, {**BODY, **change})
    assert response.status_code == 400
    assert error_of(response)["param"] == param
    assert client.requests == []
