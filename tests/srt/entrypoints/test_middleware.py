"""What every request passes: label, key, limit."""

import pytest

from srt.server_args.server_args import ServerArgs
from tests.fakes.engine_client import STOP, FakeEngineClient, chunk
from tests.fakes.http_world import CHAT, ask, error_of, post, serving

pytestmark = pytest.mark.anyio

WITH_KEY = ServerArgs(api_key="s3cret")
SMALL = ServerArgs(max_body_bytes=100)


@pytest.mark.parametrize("path", ["/health", "/ready", "/ping", "/docs", "/playground"])
async def test_a_probe_needs_no_key(path: str) -> None:
    response = await ask(FakeEngineClient(), "GET", path, args=WITH_KEY)
    assert response.status_code == 200


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/openapi.json",
        "/v1/models",
        "/health_generate",
        "/healthy",
        "/health/",
        "/server_info",
        "/get_load",
        "/nowhere",
    ],
)
async def test_everything_else_needs_the_key(path: str) -> None:
    response = await ask(FakeEngineClient(), "GET", path, args=WITH_KEY)
    assert response.status_code == 401
    assert error_of(response)["type"] == "authentication_error"
    assert response.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize("value", ["", "s3cret", "Bearer", "Bearer wrong", "Bearer s3cret2", "Basic s3cret"])
async def test_a_wrong_key_is_refused_before_the_body_is_looked_at(value: str) -> None:
    client = FakeEngineClient()
    headers = {"authorization": value}
    response = await ask(client, "POST", "/generate", content=b"{", headers=headers, args=WITH_KEY)
    assert response.status_code == 401
    assert client.requests == []


@pytest.mark.parametrize("scheme", ["Bearer", "bearer"])
async def test_the_right_key_opens(scheme: str) -> None:
    headers = {"authorization": f"{scheme} s3cret"}
    response = await ask(FakeEngineClient(), "GET", "/v1/models", headers=headers, args=WITH_KEY)
    assert response.status_code == 200


@pytest.mark.parametrize("other", [{}, {"authorization": "Bearer none"}])
async def test_the_key_may_come_as_anthropics_clients_send_it(other: dict[str, str]) -> None:
    for key, status in (("s3cret", 200), ("wrong", 401), ("", 401)):
        headers = {"x-api-key": key, **other}
        response = await ask(FakeEngineClient(), "GET", "/v1/models", headers=headers, args=WITH_KEY)
        assert response.status_code == status


async def test_a_request_id_comes_back_and_names_the_request() -> None:
    client = FakeEngineClient([[chunk("a", finish=STOP)]])
    response = await post(client, "/v1/chat/completions", CHAT, headers={"x-request-id": "abc-1"})
    assert response.headers["x-request-id"] == "abc-1"
    assert response.json()["id"] == "chatcmpl-abc-1"


@pytest.mark.parametrize("given", ["", "x" * 129, "x" * 60_000, "a b", "a\tb", "\xff"])
async def test_an_unusable_request_id_is_replaced(given: str) -> None:
    headers = {"x-request-id": given.encode("latin-1")}
    response = await ask(FakeEngineClient(), "GET", "/health", headers=headers)
    assert response.headers["x-request-id"] != given
    assert len(response.headers["x-request-id"]) == 32


async def test_errors_carry_the_request_id_too() -> None:
    response = await ask(FakeEngineClient(), "GET", "/nowhere", headers={"x-request-id": "abc-1"})
    assert response.status_code == 404
    assert response.headers["x-request-id"] == "abc-1"


async def test_a_body_at_the_limit_is_read() -> None:
    body = b'{"prompt": "%b"}' % (b"x" * 86)
    assert len(body) == 100
    headers = {"content-type": "application/json"}
    response = await ask(FakeEngineClient(), "POST", "/tokenize", content=body, headers=headers, args=SMALL)
    assert response.status_code == 200


async def test_a_body_announced_too_long_is_refused_unread() -> None:
    async with serving(FakeEngineClient(), SMALL) as world, world.connection() as connection:
        connection.writer.write(b"POST /tokenize HTTP/1.1\r\nHost: x\r\nContent-Length: 200000000\r\n\r\n")
        assert await connection.read_status() == 413


async def test_a_chunked_body_is_refused_as_soon_as_it_is_too_long() -> None:
    async with serving(FakeEngineClient(), SMALL) as world, world.connection() as connection:
        connection.writer.write(b"POST /tokenize HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        connection.writer.write(b"40\r\n" + b"x" * 64 + b"\r\n")
        connection.writer.write(b"40\r\n" + b"x" * 64 + b"\r\n")  # and no end
        assert await connection.read_status() == 413


async def test_no_header_opens_the_server_to_other_origins() -> None:
    headers = {"origin": "http://evil.example", "access-control-request-method": "POST"}
    response = await ask(FakeEngineClient(), "OPTIONS", "/v1/chat/completions", headers=headers)
    assert response.status_code == 405
    assert not [name for name in response.headers if name.startswith("access-control")]
