"""The description of the API, against what is really there."""

import json
from typing import Any

import pytest
from starlette.routing import Route

from srt.entrypoints.openapi.document import openapi_document, openapi_path
from srt.entrypoints.openapi.operations import OPERATIONS
from srt.entrypoints.routes import build_routes
from srt.server_args.server_args import ServerArgs
from tests.fakes.engine_client import FakeEngineClient

DOCUMENT = openapi_document(has_api_key=True)


def test_every_route_is_described_with_all_its_methods() -> None:
    """Whoever adds a route to routes.py adds an Operation to srt/entrypoints/openapi/operations.py."""
    routed = set()
    for route in build_routes(FakeEngineClient(), ServerArgs()):
        assert isinstance(route, Route)
        assert route.methods is not None
        routed |= {(openapi_path(route.path), method.lower()) for method in route.methods - {"HEAD"}}
    described = {(path, method) for path, methods in DOCUMENT["paths"].items() for method in methods}
    assert described == routed


def test_every_reference_leads_somewhere() -> None:
    def walk(node: Any) -> None:
        if isinstance(node, dict):
            if "$ref" in node:
                _, *names = node["$ref"].split("/")
                target: Any = DOCUMENT
                for name in names:
                    target = target[name]
            for value in node.values():
                walk(value)
        elif isinstance(node, list):
            for value in node:
                walk(value)

    walk(DOCUMENT)


def test_operations_have_names_of_their_own() -> None:
    names = [
        operation["operationId"] for methods in DOCUMENT["paths"].values() for operation in methods.values()
    ]
    assert len(set(names)) == len(names)


def test_it_is_json() -> None:
    assert json.loads(json.dumps(DOCUMENT)) == DOCUMENT


def test_the_key_is_asked_for_where_it_is_needed_only() -> None:
    paths = DOCUMENT["paths"]
    assert paths["/generate"]["post"]["security"] == [{"bearer": []}, {"x-api-key": []}]
    assert "security" not in paths["/health"]["get"]
    assert "security" not in openapi_document(has_api_key=False)["paths"]["/generate"]["post"]


def test_a_body_that_takes_a_replica_comes_with_its_header() -> None:
    (header,) = DOCUMENT["paths"]["/generate"]["put"]["parameters"]
    assert header["name"] == "x-data-parallel-rank"


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.paths[0])
def test_whoever_takes_a_body_gives_an_example(operation: Any) -> None:
    assert (operation.body is None) == (operation.example is None)
