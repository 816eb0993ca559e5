"""Bodies that name a model."""

from typing import Any

import pytest

from srt.server_args.server_args import ServerArgs
from tests.fakes.engine_client import LENGTH, FakeEngineClient, chunk
from tests.fakes.http_world import BODIES, error_of, post

pytestmark = pytest.mark.anyio

STRICT = ServerArgs(strict_model_name=True)
BODIES_WITH_MODEL: dict[str, Any] = {
    path: BODIES[path] for path in ("/v1/chat/completions", "/v1/completions")
} | {
    "/v1/score": {"query": "a", "items": ["b"], "label_token_ids": [1, 2]},
    "/v1/rerank": {"query": "a", "documents": ["b"]},
}


@pytest.mark.parametrize("path", BODIES_WITH_MODEL)
async def test_another_model_is_a_404_that_names_the_one_there_is(path: str) -> None:
    client = FakeEngineClient()
    response = await post(client, path, BODIES_WITH_MODEL[path] | {"model": "gpt-4o"}, args=STRICT)
    assert response.status_code == 404
    error = error_of(response)
    assert (error["code"], error["param"]) == ("model_not_found", "model")
    assert "'tiny'" in error["message"]
    assert client.requests == []


@pytest.mark.parametrize("named", [{"model": "tiny"}, {"model": None}, {}])
async def test_the_served_name_and_none_are_fine(named: dict[str, Any]) -> None:
    client = FakeEngineClient()
    client.answers.append([[chunk("x", finish=LENGTH)]])
    response = await post(client, "/v1/completions", {"prompt": "hi", **named}, args=STRICT)
    assert response.status_code == 200
    assert response.json()["model"] == "tiny"


async def test_any_name_is_accepted_and_comes_back_unless_told_otherwise() -> None:
    client = FakeEngineClient()
    client.answers.append([[chunk("x", finish=LENGTH)]])
    response = await post(client, "/v1/completions", {"prompt": "hi", "model": "gpt-4o"})
    assert response.status_code == 200
    assert response.json()["model"] == "gpt-4o"
