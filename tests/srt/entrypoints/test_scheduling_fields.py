"""`priority` and `timeout_s`, the same on every generating endpoint."""

from typing import Any

import pytest

from tests.fakes.engine_client import STOP, FakeEngineClient, chunk
from tests.fakes.http_world import BODIES, error_of, post

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("path", BODIES)
async def test_priority_and_time_limit_reach_the_engine(path: str) -> None:
    client = FakeEngineClient([[chunk("x", finish=STOP)]])
    response = await post(client, path, {**BODIES[path], "priority": -7, "timeout_s": 2})
    assert response.status_code == 200
    assert (client.requests[0].priority, client.requests[0].timeout_s) == (-7, 2.0)


@pytest.mark.parametrize("path", BODIES)
async def test_without_them_there_is_none(path: str) -> None:
    client = FakeEngineClient([[chunk("x", finish=STOP)]])
    await post(client, path, {**BODIES[path], "priority": None})
    assert (client.requests[0].priority, client.requests[0].timeout_s) == (None, None)


@pytest.mark.parametrize("path", BODIES)
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("priority", 2**31),
        ("priority", 10**30),
        ("priority", 1.5),
        ("priority", True),
        ("timeout_s", 0),
        ("timeout_s", -1.0),
        ("timeout_s", 1e300),
        ("timeout_s", "5"),
    ],
)
async def test_what_makes_no_sense_is_refused_by_name(path: str, field: str, value: Any) -> None:
    client = FakeEngineClient()
    response = await post(client, path, {**BODIES[path], field: value})
    assert response.status_code == 400
    assert error_of(response)["param"] == field
    assert client.requests == []
