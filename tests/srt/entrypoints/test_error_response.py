"""One error object, whatever goes wrong and wherever."""

import logging

import pytest

from srt.errors import ContextLengthExceeded, QueueFull, RequestError, RequestFailed, ServerNotReady
from tests.fakes.engine_client import FakeEngineClient, chunk
from tests.fakes.http_world import BODIES, ask, error_of, events_of, post, serving

pytestmark = pytest.mark.anyio

EVERY_ENDPOINT = pytest.mark.parametrize("path", BODIES)


@pytest.mark.parametrize(("method", "path"), [("GET", "/nope"), ("POST", "/v1/nope"), ("GET", "/v1/models/")])
async def test_an_unknown_path_is_a_404(method: str, path: str) -> None:
    response = await ask(FakeEngineClient(), method, path)
    assert response.status_code == 404
    error_of(response)


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("GET", "/v1/chat/completions", {"POST"}),
        ("GET", "/generate", {"POST", "PUT"}),
        ("DELETE", "/flush_cache", {"GET", "HEAD", "POST"}),
        ("POST", "/health", {"GET", "HEAD"}),
    ],
)
async def test_a_wrong_method_is_a_405_that_names_the_right_ones(
    method: str, path: str, allowed: set[str]
) -> None:
    response = await ask(FakeEngineClient(), method, path)
    assert response.status_code == 405
    assert set(response.headers["allow"].split(", ")) == allowed
    error_of(response)


@EVERY_ENDPOINT
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("refusal", "status", "code"),
    [
        (QueueFull("full"), 503, "queue_full"),
        (ServerNotReady("starting"), 503, "server_not_ready"),
        (ContextLengthExceeded("too long"), 400, "context_length_exceeded"),
    ],
)
async def test_a_refused_request_gets_a_status_and_no_stream(
    path: str, stream: bool, refusal: RequestError, status: int, code: str
) -> None:
    client = FakeEngineClient()
    client.refusal = refusal
    response = await post(client, path, BODIES[path] | {"stream": stream})
    assert response.status_code == status
    assert error_of(response)["code"] == code
    assert ("retry-after" in response.headers) == (status == 503)


@EVERY_ENDPOINT
@pytest.mark.parametrize("stream", [False, True])
async def test_a_refusal_by_the_scheduler_comes_before_any_200(path: str, stream: bool) -> None:
    client = FakeEngineClient([RequestFailed("the queue is full", status=503)])
    response = await post(client, path, BODIES[path] | {"stream": stream})
    assert response.status_code == 503
    assert error_of(response)["type"] == "service_unavailable"
    assert response.headers["retry-after"] == "1"
    assert client.generations[0].is_aborted


@EVERY_ENDPOINT
async def test_an_error_in_mid_stream_is_one_event_and_the_end(path: str) -> None:
    client = FakeEngineClient([[chunk("a")], ServerNotReady("a process died")])
    response = await post(client, path, BODIES[path] | {"stream": True})
    events = events_of(response.text)
    errors = [event for event in events if event != "[DONE]" and "error" in event]
    assert response.status_code == 200
    assert [error["error"]["message"] for error in errors] == ["a process died"]
    assert events[-2:] == [*errors, "[DONE]"]
    assert client.generations[0].is_aborted


@EVERY_ENDPOINT
async def test_a_bug_is_a_500_that_tells_the_client_nothing(
    path: str, caplog: pytest.LogCaptureFixture
) -> None:
    client = FakeEngineClient([ValueError("secret detail")])
    response = await post(client, path, BODIES[path])
    assert response.status_code == 500
    assert error_of(response)["message"] == "internal server error"
    assert "secret detail" in caplog.text
    assert client.generations[0].is_aborted


@EVERY_ENDPOINT
async def test_a_bug_in_mid_stream_is_one_event_and_the_end(path: str) -> None:
    client = FakeEngineClient([[chunk("a")], ValueError("secret detail")])
    response = await post(client, path, BODIES[path] | {"stream": True})
    *_, error, done = events_of(response.text)
    assert error["error"]["message"] == "internal server error"
    assert done == "[DONE]"


async def test_a_bug_is_logged_with_the_label_of_its_request(caplog: pytest.LogCaptureFixture) -> None:
    client = FakeEngineClient([ValueError("a bug")])
    await post(client, "/generate", BODIES["/generate"], headers={"X-Request-Id": "my-label"})
    assert "POST /generate (my-label) failed" in [record.getMessage() for record in caplog.records]


async def test_a_client_that_leaves_is_one_line_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    client = FakeEngineClient()
    async with serving(client) as world:
        async with world.connection() as connection:
            connection.post("/generate", BODIES["/generate"])
            generation = await client.next_generation()
        await generation.was_aborted.wait()
    (line,) = [record for record in caplog.records if record.name.startswith("srt.")]
    # With the request's label, which is its rid here.
    assert line.getMessage() == f"POST /generate ({generation.request_id}): the client left"
    assert [record for record in caplog.records if record.levelno > logging.INFO] == []
