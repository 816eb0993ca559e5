"""Every exception Lockstep raises on purpose, drawn as a tree; a client's errors know their HTTP status.

LockstepError
├── RequestError            the client's: becomes an HTTP error, costs nobody else anything
│   ├── InvalidRequest            400
│   ├── ContextLengthExceeded     400, code context_length_exceeded
│   ├── Unauthorized              401
│   ├── NotFound                  404
│   ├── ModelNotFound             404, code model_not_found
│   ├── MethodNotAllowed          405
│   ├── PayloadTooLarge           413
│   ├── UnsupportedMediaType      415
│   ├── QueueFull                 503, with Retry-After
│   ├── ServerNotReady            503: starting, draining, or a process of ours is gone
│   └── RequestFailed             any status the scheduler decided
├── StartupError            the machine's or the operator's: before the port opens, exit code 1
├── LockstepDivergence      ours: two ranks decided differently
└── RankLost                another rank has ended, or stood still for too long
"""


class LockstepError(Exception):
    """The root: whatever we raise on purpose."""


class RequestError(LockstepError):
    """A request that cannot be served. `param` names the offending field of the body."""

    status = 400
    error_type = "invalid_request_error"
    code: str | None = None
    retry_after_s: int | None = None

    def __init__(self, message: str, *, param: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.param = param


class InvalidRequest(RequestError):
    """A field is missing, has the wrong type, or is out of range."""


class ContextLengthExceeded(RequestError):
    """Prompt, or prompt and answer together, are longer than the model or the memory allows."""

    code = "context_length_exceeded"


class Unauthorized(RequestError):
    """No API key, or a wrong one."""

    status = 401
    error_type = "authentication_error"
    code = "invalid_api_key"


class NotFound(RequestError):
    """No such path or object."""

    status = 404
    error_type = "not_found_error"


class ModelNotFound(NotFound):
    """The request names a model that is not served here."""

    error_type = "invalid_request_error"
    code = "model_not_found"


class MethodNotAllowed(RequestError):
    """The path exists, the method does not."""

    status = 405


class PayloadTooLarge(RequestError):
    """The body is larger than the server reads."""

    status = 413


class UnsupportedMediaType(RequestError):
    """The body is packed in a way that the server does not unpack."""

    status = 415


class QueueFull(RequestError):
    """The waiting queue is at its limit; the client should come back."""

    status = 503
    error_type = "service_unavailable"
    code = "queue_full"
    retry_after_s = 1


class ServerNotReady(RequestError):
    """The server is starting, draining, or has lost one of its processes."""

    status = 503
    error_type = "service_unavailable"
    code = "server_not_ready"
    retry_after_s = 5


class RequestFailed(RequestError):
    """The scheduler ended the request with an error of its own status."""

    def __init__(self, message: str, *, status: int, param: str | None = None) -> None:
        super().__init__(message, param=param)
        self.status = status
        self.error_type = "invalid_request_error" if status < 500 else "server_error"
        if status == 503:
            self.error_type = "service_unavailable"
            self.retry_after_s = 1


class StartupError(LockstepError):
    """The server cannot start; one sentence for the operator, and what to try."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message if hint is None else f"{message} ({hint})")


class RankLost(LockstepError):
    """Another rank of this model has ended, or stood still for longer than --dist-timeout."""


class LockstepDivergence(LockstepError):
    """Two ranks planned different turns. Names the turn, the rank and both plans."""
