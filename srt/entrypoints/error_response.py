"""What went wrong, as the client sees it: status, headers and OpenAI's error object. The only place that knows both.

One shape everywhere: `{"error": {"message", "type", "param", "code"}}`, as a body before a response has begun, and as
one server-sent event, followed by `[DONE]`, in a stream that has. Only paths under /v1/messages have Anthropic's.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

import orjson
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from srt.entrypoints.anthropic.errors import PATHS as ANTHROPIC_PATHS
from srt.entrypoints.anthropic.errors import anthropic_error_body, anthropic_last_event
from srt.entrypoints.disconnect import ClientDisconnected
from srt.entrypoints.middleware import note_failure, request_label
from srt.entrypoints.sse import DONE, EVENT_STREAM, event
from srt.errors import InvalidRequest, MethodNotAllowed, NotFound, RequestError, RequestFailed

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ErrorShape:
    """How one API spells an error: as a body, and as all that ends a stream."""

    body: Callable[[RequestError], bytes]
    last_event: Callable[[RequestError], bytes]


def error_body(error: RequestError) -> bytes:
    """OpenAI's error object."""
    fields = {"message": error.message, "type": error.error_type, "param": error.param, "code": error.code}
    return orjson.dumps({"error": fields})


OPENAI = ErrorShape(error_body, lambda error: event(error_body(error)) + DONE)
ANTHROPIC = ErrorShape(anthropic_error_body, anthropic_last_event)


def error_shape(path: str) -> ErrorShape:
    """That of the API to which a path belongs, whether or not there is such a path."""
    return ANTHROPIC if path == ANTHROPIC_PATHS or path.startswith(ANTHROPIC_PATHS + "/") else OPENAI


class ErrorResponses:
    """ASGI layer: whatever is raised inside becomes the response, or the stream's last event.

    Only cancellation passes, so every request ends in one defined way.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on and answer for its failure."""
        response = _ResponseProgress(scope, send, error_shape(scope["path"]))
        # Starlette's router raises its 404 and 405, rather than word them itself, inside what calls itself an app.
        scope["app"] = self
        try:
            await self._app(scope, receive, response.send)
        except ClientDisconnected:
            logger.info("%s: the client left", _name(scope))
        except RequestError as error:
            await response.fail(error)
        except HTTPException as error:
            await response.fail(_from_router(error, scope), error.headers or {})
        except Exception:
            logger.exception("%s failed", _name(scope))
            await response.fail(RequestFailed("internal server error", status=500))


def _name(scope: Scope) -> str:
    """A request in the log, with the label that its client knows it by."""
    return f"{scope['method']} {scope['path']} ({request_label(scope)})"


class _ResponseProgress:
    """Passes a response on and knows how far it has got. Costs an event one plain call, no coroutine."""

    def __init__(self, scope: Scope, send: Send, shape: ErrorShape) -> None:
        self._scope = scope
        self._send = send
        self._shape = shape
        self._has_begun = False
        self._is_event_stream = False

    def send(self, message: Message) -> Awaitable[None]:
        if message["type"] == "http.response.start":
            self._has_begun = True
            self._is_event_stream = (b"content-type", EVENT_STREAM) in message["headers"]
        return self._send(message)

    async def fail(self, error: RequestError, headers: Mapping[str, str] = {}) -> None:
        """Say what went wrong, in the way that is still possible."""
        note_failure(self._scope, error)
        if not self._has_begun:
            await _send_error(self._send, error, self._shape.body(error), headers)
            return
        # A whole body was sent in one message, so only a stream can break half-way.
        assert self._is_event_stream, "a response failed after it was sent"
        await self._send({"type": "http.response.body", "body": self._shape.last_event(error)})


async def _send_error(send: Send, error: RequestError, body: bytes, extra_headers: Mapping[str, str]) -> None:
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", b"%d" % len(body)),
        *((name.lower().encode(), value.encode()) for name, value in extra_headers.items()),
    ]
    if error.retry_after_s is not None:
        headers.append((b"retry-after", b"%d" % error.retry_after_s))
    if error.status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": error.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _from_router(error: HTTPException, scope: Scope) -> RequestError:
    match error.status_code:
        case 404:
            return NotFound(f"there is no {scope['path']}")
        case 405:
            return MethodNotAllowed(f"{scope['path']} does not take {scope['method']}")
        case _:
            return InvalidRequest(error.detail)
