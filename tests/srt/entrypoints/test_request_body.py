"""Bytes that are not what we expect, and which field is to blame."""

import gzip
from typing import Any

import pytest

from tests.fakes.engine_client import FakeEngineClient
from tests.fakes.http_world import BODIES, ask, error_of, post

pytestmark = pytest.mark.anyio

EVERY_ENDPOINT = pytest.mark.parametrize("path", BODIES)
JSON = {"content-type": "application/json"}


@EVERY_ENDPOINT
@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"[]",
        b'"text"',
        b"null",
        b"\xef\xbb\xbf{}",
        b'{"prompt": "\xff"}',
        b'{"temperature": NaN}',
        b'{"temperature": Infinity}',
        b'{"temperature": 1e999}',
        b'{"seed": ' + b"9" * 5000 + b"}",
        b'{"model": "hi \\ud83d there"}',
        b'{"whatever": "\\ude00"}',
        b'{"rid": "\xed\xa0\xbd"}',
        b'{"unknown": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"unknown": ' + b'{"a":' * 100_000 + b"1" + b"}" * 100_000 + b"}",
    ],
    ids=lambda body: repr(body[:24]),
)
async def test_what_is_no_json_object_in_utf8_is_a_400(path: str, body: bytes) -> None:
    client = FakeEngineClient()
    response = await ask(client, "POST", path, content=body, headers=JSON)
    assert response.status_code == 400
    error_of(response)
    assert client.requests == []


@EVERY_ENDPOINT
@pytest.mark.parametrize(
    "content_type",
    [
        "text/plain",
        "application/x-www-form-urlencoded",
        "application/json; charset=utf-16",
        "application/json; charset=latin-1",
    ],
)
async def test_another_content_type_is_a_400(path: str, content_type: str) -> None:
    """A browser lets any page send text/plain to any server; JSON it asks for first."""
    client = FakeEngineClient()
    headers = {"content-type": content_type}
    response = await ask(client, "POST", path, content=b"{}", headers=headers)
    assert response.status_code == 400
    assert "Content-Type" in error_of(response)["message"] or "charset" in error_of(response)["message"]


@pytest.mark.parametrize(
    "content_type", ['application/json; charset="UTF-8"', "Application/JSON;charset=utf8"]
)
async def test_utf8_may_be_said_in_any_way(content_type: str) -> None:
    headers = {"content-type": content_type}
    response = await ask(FakeEngineClient(), "POST", "/tokenize", content=b'{"prompt": "a"}', headers=headers)
    assert response.status_code == 200


@EVERY_ENDPOINT
@pytest.mark.parametrize("encoding", ["gzip", "br", "deflate", "zstd", "gzip, identity"])
async def test_a_compressed_body_is_a_415(path: str, encoding: str) -> None:
    headers = JSON | {"content-encoding": encoding}
    response = await ask(FakeEngineClient(), "POST", path, content=gzip.compress(b"{}"), headers=headers)
    assert response.status_code == 415
    assert "compressed" in error_of(response)["message"]


async def test_a_body_that_says_it_is_as_it_is_is_read() -> None:
    headers = JSON | {"content-encoding": "identity"}
    response = await ask(FakeEngineClient(), "POST", "/tokenize", content=b'{"prompt": "a"}', headers=headers)
    assert response.status_code == 200


async def test_of_a_key_that_comes_twice_the_last_counts() -> None:
    body = b'{"prompt": "a", "prompt": "bc"}'
    response = await ask(FakeEngineClient(), "POST", "/tokenize", content=body, headers=JSON)
    assert response.json()["tokens"][-2:] == [ord("b"), ord("c")]


WRONG_TYPES: dict[str, Any] = {
    "model": 5,
    "stream": "true",
    "stream_options": [],
    "n": "2",
    "seed": 1.5,
    "temperature": "hot",
    "top_p": [1],
    "top_k": 1.5,
    "min_p": True,
    "frequency_penalty": "0",
    "presence_penalty": {},
    "repetition_penalty": "1",
    "min_tokens": 1.5,
    "max_tokens": "5",
    "stop": 5,
    "stop_token_ids": [1.5],
    "ignore_eos": 1,
    "skip_special_tokens": "no",
    "no_stop_trim": 0,
    "logit_bias": [],
    "rid": ["a"],
    "cache_salt": 1,
    "extra_key": False,
}


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions"])
@pytest.mark.parametrize("field", WRONG_TYPES)
async def test_a_wrong_type_is_a_400_that_names_the_field(path: str, field: str) -> None:
    response = await post(FakeEngineClient(), path, BODIES[path] | {field: WRONG_TYPES[field]})
    assert response.status_code == 400
    assert error_of(response)["param"] == field


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"stop": [1]}, "stop"),
        ({"stop": [["a"]]}, "stop"),
        ({"logit_bias": {"5": "x"}}, "logit_bias"),
        ({"stream_options": {"include_usage": "yes"}}, "stream_options.include_usage"),
        ({"messages": "hi"}, "messages"),
        ({"messages": ["hi"]}, "messages"),
        ({"messages": None}, "messages"),
        ({"messages": [{"content": "hi"}]}, "messages[0].role"),
        ({"messages": [{"role": "user", "content": 5}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": [{"text": "x"}]}]}, "messages[0].content[0].type"),
    ],
)
async def test_an_error_names_the_field_however_deep(body: dict[str, Any], param: str) -> None:
    response = await post(FakeEngineClient(), "/v1/chat/completions", BODIES["/v1/chat/completions"] | body)
    assert response.status_code == 400
    assert error_of(response)["param"] == param


@pytest.mark.parametrize(
    ("path", "param"),
    [("/v1/chat/completions", "messages"), ("/v1/completions", "prompt"), ("/generate", "text")],
)
async def test_a_missing_prompt_is_named(path: str, param: str) -> None:
    response = await post(FakeEngineClient(), path, {})
    assert response.status_code == 400
    assert error_of(response)["param"] == param


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("/v1/completions", {"prompt": ["a", ""]}, "prompt[1]"),
        ("/v1/completions", {"prompt": [[1], []]}, "prompt[1]"),
        ("/v1/completions", {"prompt": []}, "prompt"),
        ("/generate", {"text": ["a", ""]}, "text[1]"),
        ("/generate", {"input_ids": [[], [1]]}, "input_ids[0]"),
        ("/generate", {"input_ids": []}, "input_ids"),
    ],
)
async def test_an_empty_row_of_a_batch_is_a_400_that_names_it(
    path: str, body: dict[str, Any], param: str
) -> None:
    client = FakeEngineClient()
    response = await post(client, path, body)
    assert (response.status_code, error_of(response)["param"]) == (400, param)
    assert client.requests == []
