"""What every request passes before its handler: a label, the API key, the limit of its body. Plain ASGI layers."""

import hmac
import re
import uuid
from collections.abc import Awaitable, MutableMapping
from typing import Any, NamedTuple

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from srt.errors import PayloadTooLarge, RequestError, Unauthorized

# Probes of orchestrators cannot carry a key, and these answer from memory. /health_generate is not among them: it
# costs a forward pass, which nobody should get without the key. /docs and /playground are pages that say nothing of
# this server, and ask for the key themselves. Exact paths; a prefix would open what is added later.
OPEN_PATHS = frozenset({"/live", "/health", "/ready", "/ping", "/metrics", "/docs", "/playground"})

# Printable, no spaces: the label goes into logs and back into a header.
_LABEL = re.compile(rb"[!-~]{1,128}")


class Failure(NamedTuple):
    """What a request ended with that did not end well."""

    status: int
    error_type: str


def request_label(scope: Scope) -> str:
    """The client's X-Request-Id, or the one made for it. A label only: nothing breaks if two are equal."""
    label: str = scope["state"]["request_label"]
    return label


def response_status(scope: Scope) -> int | None:
    """The status that the client was sent; None: nothing yet."""
    status: int | None = scope["state"].get("response_status")
    return status


def note_status(state: MutableMapping[str, Any], status: int) -> None:
    """The client was sent this status past every layer; `state` is that of the request's scope."""
    state["response_status"] = status


def note_failure(scope: Scope, error: RequestError) -> None:
    """The request ends with this error, as its status or in the middle of a stream."""
    # Not the error itself: its traceback knows the frames that know this scope, a ring for the collector to find.
    scope["state"]["failure"] = Failure(error.status, error.error_type)


def failure_of(scope: Scope) -> Failure | None:
    """How it has failed, if it has."""
    failure: Failure | None = scope["state"].get("failure")
    return failure


class RequestLabel:
    """Takes X-Request-Id or makes one, and sends it back. One that is too long or not printable is replaced."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on under its label."""
        given = _header(scope, b"x-request-id")
        label = given if _LABEL.fullmatch(given) else uuid.uuid4().hex.encode()
        state = scope.setdefault("state", {})
        state["request_label"] = label.decode()

        # No coroutine of its own: a stream's every event passes here.
        def send_labelled(message: Message) -> Awaitable[None]:
            if message["type"] == "http.response.start":
                state["response_status"] = message["status"]
                message = {**message, "headers": [*message["headers"], (b"x-request-id", label)]}
            return send(message)

        await self._app(scope, receive, send_labelled)


class ApiKey:
    """Lets nothing but OPEN_PATHS through without the key; without a key configured, everything."""

    def __init__(self, app: ASGIApp, api_key: str | None) -> None:
        self._app = app
        self._key = None if api_key is None else api_key.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check, then pass on. Raises Unauthorized."""
        if self._key is not None and scope["path"] not in OPEN_PATHS:
            # Anthropic's clients send theirs in a header of its own. Whoever sends both may mean either.
            given = (_bearer_token(scope), _header(scope, b"x-api-key").strip())
            if not any([hmac.compare_digest(token, self._key) for token in given]):
                raise Unauthorized(
                    "a valid API key is needed: Authorization: Bearer <key>, or x-api-key: <key>"
                )
        await self._app(scope, receive, send)


class BodyLimit:
    """Reads no more of a body than allowed: by its Content-Length before the first byte, else while it arrives."""

    def __init__(self, app: ASGIApp, max_body_bytes: int) -> None:
        self._app = app
        self._max_body_bytes = max_body_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on with a `receive` that counts. Raises PayloadTooLarge."""
        length = _header(scope, b"content-length")
        # Twenty digits are too many in any case, and int() refuses thousands of them.
        if length.isdigit() and (len(length) > 19 or int(length) > self._max_body_bytes):
            raise self._too_large()
        num_bytes = 0

        async def receive_counted() -> Message:
            nonlocal num_bytes
            message = await receive()
            num_bytes += len(message.get("body", b""))
            if num_bytes > self._max_body_bytes:
                raise self._too_large()
            return message

        await self._app(scope, receive_counted, send)

    def _too_large(self) -> PayloadTooLarge:
        return PayloadTooLarge(f"the body is longer than {self._max_body_bytes} bytes")


def _bearer_token(scope: Scope) -> bytes:
    """The token of the Authorization header; nothing if it has another scheme."""
    scheme, _, token = _header(scope, b"authorization").partition(b" ")
    return token.strip() if scheme.lower() == b"bearer" else b""


def _header(scope: Scope, name: bytes) -> bytes:
    """The first header of this name, or nothing."""
    return next((value for key, value in scope["headers"] if key == name), b"")
