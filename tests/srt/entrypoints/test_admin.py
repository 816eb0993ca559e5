"""Forgetting the cache, ending requests."""

from typing import Any

import pytest

from tests.fakes.engine_client import FakeEngineClient
from tests.fakes.http_world import ask, error_of, post

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_flush_cache(method: str) -> None:
    client = FakeEngineClient()
    response = await ask(client, method, "/flush_cache?timeout=2.5")
    assert response.status_code == 200
    assert client.flush_timeouts == [2.5]


async def test_flush_cache_says_why_it_was_not_done() -> None:
    client = FakeEngineClient()
    client.flush_refusal = "3 requests are running"
    response = await ask(client, "POST", "/flush_cache")
    assert response.status_code == 400
    assert error_of(response)["message"] == "3 requests are running"


@pytest.mark.parametrize("text", ["soon", "-1", "nan", "inf", ""])
async def test_flush_cache_refuses_a_timeout_that_is_none(text: str) -> None:
    client = FakeEngineClient()
    response = await ask(client, "POST", f"/flush_cache?timeout={text}")
    assert response.status_code == 400
    assert error_of(response)["param"] == "timeout"
    assert client.flush_timeouts == []


async def test_abort_is_by_exact_rid_or_of_all() -> None:
    client = FakeEngineClient()
    assert (await post(client, "/abort_request", {"rid": "a1"})).status_code == 200
    assert (await post(client, "/abort_request", {"abort_all": True})).status_code == 200
    assert client.aborted_rids == ["a1"]
    assert client.num_abort_all == 1


@pytest.mark.parametrize("body", [{}, {"rid": ""}, {"abort_all": False}])
async def test_an_abort_of_nothing_is_a_400(body: dict[str, Any]) -> None:
    response = await post(FakeEngineClient(), "/abort_request", body)
    assert response.status_code == 400
