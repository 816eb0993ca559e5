"""How many answers one request may ask for, in both APIs that take several prompts."""

from typing import Any

import pytest

from srt.entrypoints.prompt_rows import MAX_CHOICES
from tests.fakes.engine_client import FakeEngineClient
from tests.fakes.http_world import error_of, post

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("/v1/completions", {"prompt": ["a"] * (MAX_CHOICES + 1)}, "prompt"),
        ("/v1/completions", {"prompt": [[1]] * (MAX_CHOICES // 2 + 1), "n": 2}, "prompt"),
        ("/generate", {"text": ["a"] * (MAX_CHOICES + 1)}, "text"),
        (
            "/generate",
            {"input_ids": [[1]] * (MAX_CHOICES // 2 + 1), "sampling_params": {"n": 2}},
            "input_ids",
        ),
    ],
)
async def test_a_request_for_too_many_answers_is_refused_by_name(
    path: str, body: dict[str, Any], param: str
) -> None:
    client = FakeEngineClient()
    response = await post(client, path, body)
    assert response.status_code == 400
    assert error_of(response)["param"] == param
    assert str(MAX_CHOICES) in error_of(response)["message"]
    assert client.requests == []


@pytest.mark.parametrize("path", ["/v1/completions", "/generate"])
async def test_a_long_prompt_of_ids_is_one_prompt(path: str) -> None:
    client = FakeEngineClient([])
    client.refusal = RuntimeError("seen")
    field = "prompt" if path == "/v1/completions" else "input_ids"
    await post(client, path, {field: [7] * (MAX_CHOICES + 1)})
    assert len(client.requests[0].prompts) == 1
