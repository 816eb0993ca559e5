"""OPERATIONS as an OpenAPI 3.1 document."""

import re
from collections.abc import Sequence
from typing import Any

import msgspec

import srt
from srt.entrypoints.dp_rank import HEADER as DP_RANK_HEADER
from srt.entrypoints.middleware import OPEN_PATHS
from srt.entrypoints.openapi.operations import OPERATIONS, Operation

JSON, EVENTS = "application/json", "text/event-stream"

_ERRORS = {
    400: "A field is missing, wrong, out of range, or asks for something that is not served",
    401: "No API key, or a wrong one",
    404: "No such thing",
    405: "Not this method",
    413: "The body is longer than --max-body-bytes",
    431: "The head is longer than 64 KiB",
    500: "Our fault",
    503: "Too busy, starting, draining, or broken; Retry-After says when to come back",
    504: "It took longer than it may",
}
# What any request can meet.
_ALWAYS = (401, 413, 431, 500)
_SECURITY: list[dict[str, list[str]]] = [{"bearer": []}, {"x-api-key": []}]


def openapi_document(*, has_api_key: bool) -> dict[str, Any]:
    """The whole document, ready to be encoded."""
    types = [kind for operation in OPERATIONS for kind in _types(operation)]
    schemas, components = msgspec.json.schema_components(types, ref_template="#/components/schemas/{name}")
    schema_of = dict(zip(map(repr, types), schemas, strict=True))
    writer = _Writer(schema_of, has_api_key=has_api_key)
    paths: dict[str, dict[str, Any]] = {}
    for operation in OPERATIONS:
        for path in operation.paths:
            methods = paths.setdefault(openapi_path(path), {})
            for method in operation.methods:
                methods[method.lower()] = writer.operation(operation, path, method)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Lockstep",
            "version": srt.__version__,
            "description": "A language model over HTTP, with OpenAI's, Anthropic's and SGLang's endpoints.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "x-api-key": {"type": "apiKey", "in": "header", "name": "x-api-key"},
            }
            if has_api_key
            else {},
        },
    }


def openapi_path(path: str) -> str:
    """Starlette's way to write a path, in OpenAPI's: {model:path} is {model}."""
    return re.sub(r"\{(\w+):\w+\}", r"{\1}", path)


def _types(operation: Operation) -> Sequence[Any]:
    kinds = (operation.body, operation.answer, operation.event, operation.error)
    return [kind for kind in kinds if kind is not None]


class _Writer:
    def __init__(self, schema_of: dict[str, Any], *, has_api_key: bool) -> None:
        self._schema_of = schema_of
        self._has_api_key = has_api_key

    def operation(self, operation: Operation, path: str, method: str) -> dict[str, Any]:
        name = re.sub(r"\W+", "_", openapi_path(path)).strip("_") or "root"
        described: dict[str, Any] = {
            "operationId": f"{method.lower()}_{name}",
            "tags": [operation.tag],
            "summary": operation.summary,
            "responses": self._responses(operation),
        }
        if parameters := _parameters(operation):
            described["parameters"] = parameters
        if operation.body is not None:
            content = {"schema": self._schema_of[repr(operation.body)], "example": operation.example}
            described["requestBody"] = {"required": True, "content": {JSON: content}}
        if self._has_api_key and path not in OPEN_PATHS:
            described["security"] = _SECURITY
        return described

    def _responses(self, operation: Operation) -> dict[str, Any]:
        content: dict[str, Any] = {}
        if operation.answer is not None:
            content[JSON] = {"schema": self._schema_of[repr(operation.answer)]}
        if operation.event is not None:
            content[EVENTS] = {"schema": _event_schema(self._schema_of[repr(operation.event)])}
        if operation.other_media_type is not None:
            content[operation.other_media_type] = {"schema": {"type": "string"}}
        responses: dict[str, Any] = {"200": {"description": "Done", "content": content}}
        for status in sorted({*operation.errors, *_ALWAYS}):
            content = {JSON: {"schema": self._schema_of[repr(operation.error)]}}
            responses[str(status)] = {"description": _ERRORS[status], "content": content}
        return responses


def _event_schema(data: Any) -> dict[str, Any]:
    """One event of a stream, whose data is JSON, or [DONE], the last of OpenAI's."""
    written = {"type": "string", "contentMediaType": JSON, "contentSchema": data}
    return {
        "type": "object",
        "properties": {"event": {"type": "string"}, "data": {"anyOf": [{"const": "[DONE]"}, written]}},
        "required": ["data"],
    }


def _parameters(operation: Operation) -> list[dict[str, Any]]:
    written = [
        {
            "name": parameter.name,
            "in": parameter.place,
            "required": parameter.place == "path",
            "schema": dict(parameter.schema),
            "description": parameter.description,
            # A list in a query is one value, joined by commas.
            **({"style": "form", "explode": False} if parameter.schema.get("type") == "array" else {}),
        }
        for parameter in operation.parameters
    ]
    # Whoever's body may name a replica reads the header too.
    if "routed_dp_rank" in getattr(operation.body, "__struct_fields__", ()):
        written.append(
            {
                "name": DP_RANK_HEADER,
                "in": "header",
                "schema": {"type": "integer"},
                "description": "The data-parallel replica that is to serve this.",
            }
        )
    return written
