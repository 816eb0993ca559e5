"""Liveness: out of memory, or with one token."""

import asyncio
from typing import Any

import msgspec
import pytest
from starlette.requests import Request

from srt.engine_client import Health
from srt.entrypoints.health import HealthChecks
from srt.errors import RequestFailed, ServerNotReady
from tests.fakes.engine_client import LENGTH, LOAD, FakeEngineClient, chunk
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


async def test_the_token_of_a_check_is_marked_as_such_and_has_an_end() -> None:
    client = FakeEngineClient([[chunk("a", finish=LENGTH)]])
    await get(client, "/health_generate")
    assert client.requests[0].is_probe
    assert client.requests[0].timeout_s


async def test_each_replica_is_asked_for_a_token() -> None:
    client = FakeEngineClient([[chunk("a", finish=LENGTH)]], [[chunk("b", finish=LENGTH)]])
    client.load_snapshots = [LOAD, msgspec.structs.replace(LOAD, dp_rank=1)]
    await get(client, "/health_generate")
    assert [request.dp_rank for request in client.requests] == [0, 1]


async def test_however_many_ask_one_token_is_on_its_way() -> None:
    client = FakeEngineClient()
    checks = HealthChecks(client)
    async with asyncio.TaskGroup() as tasks:
        asking = [tasks.create_task(checks.check_by_generating(Request({"type": "http"}))) for _ in range(5)]
        generation = await client.next_generation()
        generation.push(chunk("a", finish=LENGTH))
    assert len(client.requests) == 1
    assert [task.result().status_code for task in asking] == [200] * 5


@pytest.mark.parametrize(
    "error", [RequestFailed("broken", status=500), RequestFailed("late", status=504), ServerNotReady("gone")]
)
async def test_health_generate_fails_with_its_token(error: Exception) -> None:
    response = await ask(FakeEngineClient([error]), "GET", "/health_generate")
    assert response.status_code == 503


async def test_a_server_that_takes_nothing_new_is_alive() -> None:
    client = FakeEngineClient()
    client.health_now = Health(ok=False, detail="the server is shutting down")
    assert await get(client, "/live") == {"status": "ok"}


async def test_one_whose_process_is_silent_is_not() -> None:
    client = FakeEngineClient()
    client.health_now = Health(ok=False, is_alive=False, detail="no sign of life from detokenizer for 61 s")
    response = await ask(client, "GET", "/live")
    assert response.status_code == 503
    assert "detokenizer" in error_of(response)["message"]
