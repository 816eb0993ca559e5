"""Asking for a replica: by header or body, on every API."""

from typing import Any

import pytest

from srt.engine_client import Health, LoadSnapshot
from srt.errors import InvalidRequest, ServerNotReady
from tests.fakes.engine_client import LENGTH, LOAD, FakeEngineClient, chunk
from tests.fakes.http_world import BODIES, ask, error_of, post

pytestmark = pytest.mark.anyio

HEADER = "x-data-parallel-rank"


async def rank_of(path: str, fields: dict[str, Any], header: str | None = None) -> int | None:
    client = FakeEngineClient([[chunk("a", finish=LENGTH)]])
    headers = {} if header is None else {HEADER: header}
    response = await post(client, path, {**BODIES[path], **fields}, headers=headers)
    assert response.status_code == 200, response.text
    return client.requests[0].dp_rank


@pytest.mark.parametrize("path", BODIES)
async def test_header_and_both_fields_name_a_replica_and_the_header_wins(path: str) -> None:
    assert await rank_of(path, {}) is None
    assert await rank_of(path, {"data_parallel_rank": 1}) == 1
    assert await rank_of(path, {"routed_dp_rank": 2}) == 2
    assert await rank_of(path, {"routed_dp_rank": 0, "data_parallel_rank": 1}) == 0
    assert await rank_of(path, {"routed_dp_rank": 2}, header="3") == 3
    assert await rank_of(path, {"routed_dp_rank": None}) is None


@pytest.mark.parametrize("path", BODIES)
@pytest.mark.parametrize("value", ["1", 1.5, True, [0]])
async def test_a_field_that_is_no_whole_number_is_named(path: str, value: Any) -> None:
    for field in ("routed_dp_rank", "data_parallel_rank"):
        response = await post(FakeEngineClient(), path, {**BODIES[path], field: value})
        assert (response.status_code, error_of(response)["param"]) == (400, field)


@pytest.mark.parametrize("path", BODIES)
@pytest.mark.parametrize("value", ["", "x", "1.0", "0x1", "1 2", "9" * 5000])
async def test_a_header_that_is_no_whole_number_is_named(path: str, value: str) -> None:
    response = await post(FakeEngineClient(), path, BODIES[path], headers={HEADER: value})
    assert (response.status_code, error_of(response)["param"]) == (400, HEADER)


@pytest.mark.parametrize(
    ("fields", "headers", "param"),
    [
        ({"routed_dp_rank": 9}, {}, "routed_dp_rank"),
        ({"data_parallel_rank": 9}, {}, "data_parallel_rank"),
        ({}, {HEADER: "9"}, HEADER),
    ],
)
@pytest.mark.parametrize("path", BODIES)
async def test_a_replica_that_does_not_exist_is_a_400_in_the_clients_words(
    path: str, fields: dict[str, Any], headers: dict[str, str], param: str
) -> None:
    client = FakeEngineClient()
    client.refusal = InvalidRequest("dp_rank must be between 0 and 1, got 9", param="dp_rank")
    response = await post(client, path, {**BODIES[path], **fields}, headers=headers)
    error = error_of(response)
    assert (response.status_code, error["param"]) == (400, param)
    assert error["message"].startswith(f"{param} must be between 0 and 1")


async def test_a_lost_replica_is_a_503() -> None:
    client = FakeEngineClient()
    client.refusal = ServerNotReady("it has died", param="dp_rank")
    response = await post(client, "/generate", {"text": "a", "routed_dp_rank": 1})
    assert (response.status_code, error_of(response)["param"]) == (503, "routed_dp_rank")
    assert response.headers["retry-after"]


@pytest.mark.parametrize("path", ["/health", "/ready", "/ping"])
async def test_with_a_replica_lost_health_is_a_200_that_says_degraded(path: str) -> None:
    client = FakeEngineClient()
    client.health_now = Health(ok=True, detail="scheduler_DP1_TP0 has died")
    response = await ask(client, "GET", path)
    assert response.status_code == 200
    assert response.json() == {"status": "degraded", "detail": "scheduler_DP1_TP0 has died"}


async def test_loads_say_who_is_lost_and_get_load_has_only_who_lives() -> None:
    client = FakeEngineClient()
    fields = {name: getattr(LOAD, name) for name in LOAD.__struct_fields__}
    client.load_snapshots = (LOAD, LoadSnapshot(**fields | {"dp_rank": 1, "is_alive": False}))
    loads = (await ask(client, "GET", "/v1/loads")).json()["loads"]
    assert [(load["dp_rank"], load["is_alive"]) for load in loads] == [(0, True), (1, False)]
    assert [load["dp_rank"] for load in (await ask(client, "GET", "/get_load")).json()] == [0]
    gauges = (await ask(client, "GET", "/v1/loads?format=prometheus")).text
    assert 'lockstep_load_is_alive{dp_rank="1"} 0\n' in gauges
