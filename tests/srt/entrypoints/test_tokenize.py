"""Text to ids and back."""

from typing import Any

import pytest

from tests.fakes.engine_client import FakeEngineClient
from tests.fakes.http_world import error_of, post

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("prefix", ["", "/v1"])
@pytest.mark.parametrize(
    ("body", "tokens", "count"),
    [
        ({"prompt": "ab"}, [0, 97, 98], 3),
        ({"prompt": "ab", "add_special_tokens": False}, [97, 98], 2),
        ({"prompt": ["a", "bc"]}, [[0, 97], [0, 98, 99]], [2, 3]),
        ({"prompt": []}, [], []),
        ({"messages": [{"role": "user", "content": "ab"}]}, [97, 98], 2),
    ],
)
async def test_tokenize(prefix: str, body: dict[str, Any], tokens: Any, count: Any) -> None:
    response = await post(FakeEngineClient(), f"{prefix}/tokenize", body)
    assert response.json() == {"tokens": tokens, "count": count, "max_model_len": 4096}


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "prompt"),
        ({"prompt": "a", "messages": []}, "prompt"),
        ({"prompt": 5}, "prompt"),
        ({"messages": [{"role": "user", "content": "a"}], "tools": [{}]}, "tools"),
    ],
)
async def test_tokenize_names_what_is_wrong(body: dict[str, Any], param: str) -> None:
    response = await post(FakeEngineClient(), "/tokenize", body)
    assert response.status_code == 400
    assert error_of(response)["param"] == param


@pytest.mark.parametrize("prefix", ["", "/v1"])
@pytest.mark.parametrize(
    ("tokens", "text"), [([97, 98], "ab"), ([[97], [98, 99]], ["a", "bc"]), ([], ""), ([[]], [""])]
)
async def test_detokenize(prefix: str, tokens: Any, text: Any) -> None:
    response = await post(FakeEngineClient(), f"{prefix}/detokenize", {"tokens": tokens})
    assert response.json() == {"text": text}


@pytest.mark.parametrize("tokens", [[999_999], [-1], [[1], [999_999]], [1, [2]], ["a"], "ab", None, [1.5]])
async def test_detokenize_refuses_what_is_no_token(tokens: Any) -> None:
    response = await post(FakeEngineClient(), "/detokenize", {"tokens": tokens})
    assert response.status_code == 400
    assert error_of(response)["param"] == "tokens"
