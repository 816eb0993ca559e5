"""Liveness: out of memory, or with one token."""

from typing import Any

import pytest

from srt.engine_client import Health
from srt.errors import RequestFailed, ServerNotReady
from tests.fakes.engine_client import LENGTH, FakeEngineClient, chunk
from tests.fakes.http_world import ask, error_of

pytestmark = pytest.mark.anyio


async def get(client: FakeEngineClient, path: str) -> Any:
    response = await ask(client, "GET", path)
    assert response.status_code == 200, response.text
    return response.json()


@pytest.mark.parametrize("path", ["/health", "/ready", "/ping"])
async def test_a_well_engine_is_healthy_without_being_asked_anything(path: str) -> None:
    client = FakeEngineClient()
    await get(client, path)
    assert client.requests == []


@pytest.mark.parametrize("path", ["/health", "/ready", "/ping", "/health_generate"])
async def test_an_ill_engine_is_a_503_that_says_why(path: str) -> None:
    client = FakeEngineClient()
    client.health_now = Health(ok=False, detail="the scheduler is gone")
    response = await ask(client, "GET", path)
    assert response.status_code == 503
    assert error_of(response)["message"] == "the scheduler is gone"
    assert response.headers["retry-after"]


async def test_health_generate_sends_one_token_through() -> None:
    client = FakeEngineClient([[chunk("a", finish=LENGTH)]])
    await get(client, "/health_generate")
    assert client.requests[0].sampling[0].max_new_tokens == 1


async def test_a_busy_engine_is_not_ill() -> None:
    client = FakeEngineClient([RequestFailed("the queue is full", status=503)])
    await get(client, "/health_generate")


@pytest.mark.parametrize("error", [RequestFailed("broken", status=500), ServerNotReady("gone")])
async def test_health_generate_fails_with_its_token(error: Exception) -> None:
    response = await ask(FakeEngineClient([error]), "GET", "/health_generate")
    assert response.status_code in (500, 503)
