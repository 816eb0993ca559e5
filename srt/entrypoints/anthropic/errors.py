"""Errors as Anthropic spells them, for all paths under /v1/messages."""

import msgspec

from srt.entrypoints.anthropic.protocol import ErrorDetails, ErrorMessage
from srt.errors import RequestError

PATHS = "/v1/messages"

_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    405: "invalid_request_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
}


def anthropic_error_body(error: RequestError) -> bytes:
    """The error object. It has no place for the field's name, so the message has it."""
    message = error.message
    if error.param is not None and error.param not in message:
        message = f"{error.param}: {message}"
    default = "invalid_request_error" if error.status < 500 else "api_error"
    details = ErrorDetails(type=_TYPES.get(error.status, default), message=message)
    return msgspec.json.encode(ErrorMessage(error=details))


def anthropic_last_event(error: RequestError) -> bytes:
    """What ends a stream that has failed."""
    return b"event: error\ndata: " + anthropic_error_body(error) + b"\n\n"
