"""How busy each replica is."""

from typing import Any

import pytest

from srt.engine_client import LoadSnapshot
from tests.fakes.engine_client import LOAD, FakeEngineClient
from tests.fakes.http_world import ask, error_of

pytestmark = pytest.mark.anyio


async def get(client: FakeEngineClient, path: str) -> Any:
    response = await ask(client, "GET", path)
    assert response.status_code == 200, response.text
    return response.json()


SECOND = LoadSnapshot(**{name: getattr(LOAD, name) for name in LOAD.__struct_fields__} | {"dp_rank": 1})


async def test_get_load_is_an_array_with_what_a_balancer_adds_up() -> None:
    assert await get(FakeEngineClient(), "/get_load") == [
        {"dp_rank": 0, "num_reqs": 5, "num_waiting_reqs": 2, "num_tokens": 250}
    ]


async def test_loads_tells_every_replica() -> None:
    client = FakeEngineClient()
    client.load_snapshots = (LOAD, SECOND)
    body = await get(client, "/v1/loads?include=core,queues")
    assert [load["dp_rank"] for load in body["loads"]] == [0, 1]
    load = body["loads"][0]
    assert (load["num_running_reqs"], load["num_waiting_reqs"], load["num_used_tokens"]) == (3, 2, 200)
    assert (load["token_usage"], load["utilization"]) == (0.2, 0.5)


async def test_loads_of_one_replica() -> None:
    client = FakeEngineClient()
    client.load_snapshots = (LOAD, SECOND)
    assert [load["dp_rank"] for load in (await get(client, "/v1/loads?dp_rank=1"))["loads"]] == [1]


async def test_loads_before_the_first_report() -> None:
    client = FakeEngineClient()
    client.load_snapshots = ()
    assert (await get(client, "/v1/loads"))["loads"] == []
    assert await get(client, "/get_load") == []


@pytest.mark.parametrize(
    ("query", "param"),
    [("dp_rank=7", "dp_rank"), ("dp_rank=x", "dp_rank"), ("include=x", "include"), ("format=xml", "format")],
)
async def test_loads_names_what_is_wrong(query: str, param: str) -> None:
    response = await ask(FakeEngineClient(), "GET", f"/v1/loads?{query}")
    assert response.status_code == 400
    assert error_of(response)["param"] == param


async def test_loads_for_prometheus() -> None:
    response = await ask(FakeEngineClient(), "GET", "/v1/loads?format=prometheus")
    assert response.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert 'lockstep_load_num_used_tokens{dp_rank="0"} 200\n' in response.text
