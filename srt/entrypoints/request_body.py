"""A request's body: read, parsed and checked in one pass, with errors that name the field.

Every way in which bytes can fail to be the JSON we expect ends in an InvalidRequest here, so that no handler ever
sees an unchecked value.
"""

import re
from typing import TypeVar

import msgspec
from starlette.types import Receive, Scope

from srt.entrypoints.disconnect import ClientDisconnected
from srt.entrypoints.only_model import check_model
from srt.errors import InvalidRequest, UnsupportedMediaType

T = TypeVar("T")

_PATH = re.compile(r" - at `\$\.?(?P<path>.*)`$")
_KEY_PATH = re.compile(r" - at `key in \$\.?(?P<path>.*)`$")
_TRAILING_INDICES = re.compile(r"(\[[^\]]*\])+$")
_MISSING = re.compile(r"missing required field `(?P<name>[^`]+)`")
_UNKNOWN = re.compile(r"unknown field `(?P<name>[^`]+)`")


async def read_json(scope: Scope, receive: Receive, decoder: msgspec.json.Decoder[T]) -> T:
    """The body as the decoder's type. An empty body is `{}`. Raises InvalidRequest, or ClientDisconnected."""
    # Before it is read: what is unpacked is not what the limit of bodies was meant for.
    _check_encoding(scope)
    body = await _read(receive)
    if body:
        _check_content_type(scope)
    parsed = parse_json(body or b"{}", decoder)
    check_model(scope, parsed)
    return parsed


def parse_json(body: bytes, decoder: msgspec.json.Decoder[T]) -> T:
    """Decode, or raise InvalidRequest with the name of the field in `param`."""
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        raise _invalid_field(str(error)) from None
    except msgspec.DecodeError as error:
        raise InvalidRequest(f"the body is not valid JSON: {error}") from None
    except RecursionError:
        raise InvalidRequest("the body is nested too deeply") from None


async def _read(receive: Receive) -> bytes:
    parts = []
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnected
        parts.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(parts)


def _check_encoding(scope: Scope) -> None:
    encoding = _header(scope, b"content-encoding").strip()
    if encoding not in ("", "identity"):
        raise UnsupportedMediaType(f"the body must not be compressed, but is {encoding[:40]!r}")


def _check_content_type(scope: Scope) -> None:
    """JSON in UTF-8, and said so: a web page of another origin can send anything else without being asked."""
    media_type, _, parameters = _header(scope, b"content-type").partition(";")
    if media_type.strip() != "application/json":
        raise InvalidRequest("the Content-Type must be application/json")
    for parameter in parameters.split(";"):
        name, _, charset = parameter.partition("=")
        if name.strip() == "charset" and charset.strip().strip('"') not in ("utf-8", "utf8", "us-ascii"):
            raise InvalidRequest("the charset must be utf-8")


def _header(scope: Scope, name: bytes) -> str:
    """The first header of this name in lower case, or nothing."""
    value: bytes = next((v for key, v in scope["headers"] if key == name), b"")
    return value.decode("latin-1").lower()


def _invalid_field(message: str) -> InvalidRequest:
    """msgspec's words and path, as our error: "Expected `int`, got `str` - at `$.stop[0]`" is about `stop`."""
    match = _KEY_PATH.search(message) or _PATH.search(message)
    path = "" if match is None else match["path"]
    reason = message if match is None else message[: match.start()]
    if found := _MISSING.search(reason) or _UNKNOWN.search(reason):
        path = f"{path}.{found['name']}" if path else found["name"]
    param = _TRAILING_INDICES.sub("", path) or None
    reason = reason.replace("Object ", "").replace(" | null", "")
    return InvalidRequest(f"{param}: {reason}" if param else reason, param=param)
