"""Salts and keys that keep prefixes apart: short ones, since the cache keeps them."""

import pytest

from srt.entrypoints.request_identity import MAX_KEY_CHARS
from tests.fakes.engine_client import STOP, FakeEngineClient, chunk
from tests.fakes.http_world import BODIES, error_of, post

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("path", BODIES)
@pytest.mark.parametrize("field", ["cache_salt", "extra_key"])
async def test_a_salt_or_key_that_is_too_long_is_refused_by_name(path: str, field: str) -> None:
    client = FakeEngineClient()
    response = await post(client, path, {**BODIES[path], field: "x" * (MAX_KEY_CHARS + 1)})
    assert response.status_code == 400
    assert error_of(response)["param"] == field
    assert client.requests == []


@pytest.mark.parametrize("path", BODIES)
async def test_salt_and_key_name_one_namespace_together(path: str) -> None:
    client = FakeEngineClient([[chunk("x", finish=STOP)]])
    body = {**BODIES[path], "cache_salt": "s" * MAX_KEY_CHARS, "extra_key": ""}
    assert (await post(client, path, body)).status_code == 200
    assert client.requests[0].namespace == ("", "s" * MAX_KEY_CHARS, "")


@pytest.mark.parametrize("path", BODIES)
async def test_an_empty_salt_is_refused(path: str) -> None:
    """Its sender wants to be alone, and would share with everybody."""
    client = FakeEngineClient()
    response = await post(client, path, {**BODIES[path], "cache_salt": ""})
    assert response.status_code == 400
    assert error_of(response)["param"] == "cache_salt"
    assert client.requests == []
