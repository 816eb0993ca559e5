"""Which pages of other origins a browser lets in."""

from typing import Any

import httpx
import pytest

from srt.server_args.server_args import ServerArgs
from tests.fakes.engine_client import FakeEngineClient
from tests.fakes.http_world import ask

pytestmark = pytest.mark.anyio

PAGE = "https://chat.example.org"
NAMED = ServerArgs(cors_allow_origins=f"{PAGE}, http://localhost:3000", api_key="key")
ANY = ServerArgs(cors_allow_origins="*")
ALLOW_ORIGIN = "access-control-allow-origin"


async def preflight(args: ServerArgs, origin: str, **headers: str) -> httpx.Response:
    asked = {
        "Origin": origin,
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization,x-stainless-os",
        **headers,
    }
    return await ask(FakeEngineClient(), "OPTIONS", "/v1/chat/completions", args=args, headers=asked)


async def get(args: ServerArgs, path: str, **headers: Any) -> httpx.Response:
    return await ask(FakeEngineClient(), "GET", path, args=args, headers=headers)


async def test_nobody_is_let_in_by_default() -> None:
    refused = await preflight(ServerArgs(), PAGE)
    assert (refused.status_code, refused.headers["allow"]) == (405, "POST")
    answer = await get(ServerArgs(), "/v1/models", Origin=PAGE)
    assert not any(name.startswith("access-control") for name in (*refused.headers, *answer.headers))


async def test_a_page_that_is_named_may_ask_and_needs_no_key_to_ask_whether_it_may() -> None:
    answer = await preflight(NAMED, PAGE)
    assert answer.status_code == 204
    assert answer.headers[ALLOW_ORIGIN] == PAGE
    assert "POST" in answer.headers["access-control-allow-methods"]
    assert answer.headers["access-control-allow-headers"] == "authorization,x-stainless-os"
    assert "origin" in answer.headers["vary"]


@pytest.mark.parametrize(
    "origin", ["https://evil.example.org", f"{PAGE}.evil.org", "http://chat.example.org", "null"]
)
async def test_a_page_that_is_not_named_is_told_nothing(origin: str) -> None:
    refused = await preflight(NAMED, origin, Authorization="Bearer key")
    assert refused.status_code == 405
    answer = await get(NAMED, "/v1/models", Origin=origin, Authorization="Bearer key")
    assert answer.status_code == 200
    assert ALLOW_ORIGIN not in refused.headers
    assert ALLOW_ORIGIN not in answer.headers
    assert answer.headers["vary"] == "origin", "a cache must not give it to a page that is named"


async def test_any_page_is_let_in_without_credentials() -> None:
    for answer in (await preflight(ANY, PAGE), await get(ANY, "/v1/models", Origin=PAGE)):
        assert answer.headers[ALLOW_ORIGIN] == "*"
        assert "access-control-allow-credentials" not in answer.headers


async def test_a_page_can_read_errors_and_labels_too() -> None:
    answer = await get(NAMED, "/v1/models", Origin=PAGE)
    assert answer.status_code == 401
    assert answer.headers[ALLOW_ORIGIN] == PAGE
    assert "x-request-id" in answer.headers["access-control-expose-headers"]


async def test_header_names_that_are_none_are_not_sent_back() -> None:
    answer = await preflight(NAMED, PAGE, **{"Access-Control-Request-Headers": 'x"<script>'})
    assert "script" not in answer.headers["access-control-allow-headers"]


async def test_who_is_no_page_notices_nothing() -> None:
    answer = await get(ANY, "/v1/models")
    assert not any(name.startswith("access-control") for name in answer.headers)
