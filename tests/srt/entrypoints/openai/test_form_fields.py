"""What form an answer must have, in everybody's words, as the engine gets it."""

import json
from typing import Any

import pytest

from srt.constrained.grammar_spec import GrammarSpec
from srt.errors import InvalidRequest
from tests.fakes.engine_client import STOP, FakeEngineClient, chunk
from tests.fakes.http_world import CHAT, COMPLETION, error_of, post

pytestmark = pytest.mark.anyio

SCHEMA = {"type": "object", "properties": {"z": {"type": "integer"}, "a": {"type": "string"}}}
SCHEMA_GRAMMAR = GrammarSpec(
    kind="json_schema",
    text='{"type":"object","properties":{"z":{"type":"integer"},"a":{"type":"string"}}}',
)
TAG = {"format": {"type": "const_string", "value": "x"}}
PATHS = (("/v1/chat/completions", CHAT), ("/v1/completions", COMPLETION))


async def grammars_of(path: str, base: dict[str, Any], body: dict[str, Any]) -> list[GrammarSpec | None]:
    client = FakeEngineClient([[chunk("a", finish=STOP)]])
    response = await post(client, path, base | body)
    assert response.status_code == 200, response.text
    return list(client.requests[0].grammars)


@pytest.mark.parametrize(("path", "base"), PATHS)
@pytest.mark.parametrize(
    ("body", "grammar"),
    [
        ({"response_format": {"type": "json_schema", "json_schema": {"schema": SCHEMA}}}, SCHEMA_GRAMMAR),
        (
            {
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {
                        "name": "n",
                        "description": None,
                        "schema": json.dumps(SCHEMA, separators=(",", ":")),
                        "strict": False,
                    },
                }
            },
            SCHEMA_GRAMMAR,
        ),
        (
            {"response_format": {"type": "json_object"}},
            GrammarSpec(kind="json_schema", text='{"type":"object"}'),
        ),
        (
            {"response_format": {"type": "structural_tag", **TAG}},
            GrammarSpec(
                kind="structural_tag",
                text='{"type":"structural_tag","format":{"type":"const_string","value":"x"}}',
            ),
        ),
        ({"json_schema": SCHEMA}, SCHEMA_GRAMMAR),
        ({"json_schema": SCHEMA_GRAMMAR.text}, SCHEMA_GRAMMAR),
        ({"guided_json": SCHEMA}, SCHEMA_GRAMMAR),
        ({"structured_outputs": {"json": SCHEMA}}, SCHEMA_GRAMMAR),
        (
            {"structured_outputs": {"json_object": True}},
            GrammarSpec(kind="json_schema", text='{"type":"object"}'),
        ),
        ({"regex": "a+"}, GrammarSpec(kind="regex", text="a+")),
        ({"guided_regex": "a+"}, GrammarSpec(kind="regex", text="a+")),
        ({"structured_outputs": {"regex": "a+"}}, GrammarSpec(kind="regex", text="a+")),
        ({"ebnf": 'root ::= "a"'}, GrammarSpec(kind="ebnf", text='root ::= "a"')),
        ({"guided_grammar": 'root ::= "a"'}, GrammarSpec(kind="ebnf", text='root ::= "a"')),
        ({"guided_choice": ["a", 'b"\n']}, GrammarSpec(kind="ebnf", text='root ::= "a" | "b\\"\\n"')),
        ({"structured_outputs": {"choice": ["a"]}}, GrammarSpec(kind="ebnf", text='root ::= "a"')),
        ({"structural_tag": json.dumps(TAG)}, GrammarSpec(kind="structural_tag", text=json.dumps(TAG))),
    ],
)
async def test_each_word_for_it_means_one_grammar(
    path: str, base: dict[str, Any], body: dict[str, Any], grammar: GrammarSpec
) -> None:
    assert await grammars_of(path, base, body) == [grammar]


@pytest.mark.parametrize(("path", "base"), PATHS)
@pytest.mark.parametrize(
    "body",
    [
        {"response_format": {"type": "text"}},
        {"response_format": None, "regex": "", "ebnf": "", "json_schema": "", "guided_choice": []},
        {"structured_outputs": {}, "guided_decoding_backend": "xgrammar"},
        {"structured_outputs": {"disable_any_whitespace": False, "json_object": False}},
    ],
)
async def test_what_asks_for_no_form_gets_none(path: str, base: dict[str, Any], body: dict[str, Any]) -> None:
    assert await grammars_of(path, base, body) == []


@pytest.mark.parametrize(("path", "base"), PATHS)
@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"response_format": {"type": "weird"}}, "response_format.type"),
        ({"response_format": {}}, "response_format.type"),
        ({"response_format": {"type": "json_schema"}}, "response_format.json_schema.schema"),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"name": "n"}}},
            "response_format.json_schema.schema",
        ),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"schema": "{"}}},
            "response_format.json_schema.schema",
        ),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"schema": []}}},
            "response_format.json_schema.schema",
        ),
        ({"json_schema": "[1]"}, "json_schema"),
        ({"json_schema": "nonsense"}, "json_schema"),
        ({"structural_tag": "nonsense"}, "structural_tag"),
        ({"guided_choice": [""]}, "guided_choice"),
        ({"guided_choice": ["x"] * 2000}, "guided_choice"),
        ({"guided_decoding_backend": "outlines"}, "guided_decoding_backend"),
        ({"structured_outputs": {"jason": {}}}, "structured_outputs.jason"),
        ({"structured_outputs": {"whitespace_pattern": "x"}}, "structured_outputs.whitespace_pattern"),
        ({"regex": "a", "ebnf": "b"}, "ebnf"),
        ({"response_format": {"type": "json_object"}, "regex": "a"}, "regex"),
        ({"structured_outputs": {"regex": "a", "choice": ["b"]}}, "structured_outputs.choice"),
    ],
)
async def test_a_form_that_is_none_or_two_is_a_400_that_names_it(
    path: str, base: dict[str, Any], body: dict[str, Any], param: str
) -> None:
    client = FakeEngineClient()
    response = await post(client, path, base | body)
    assert response.status_code == 400, response.text
    assert error_of(response)["param"] == param
    assert client.requests == []


@pytest.mark.parametrize(("path", "base"), PATHS)
async def test_what_the_compiler_refuses_is_told_of_the_clients_field(
    path: str, base: dict[str, Any]
) -> None:
    client = FakeEngineClient()
    client.refusal = InvalidRequest("no such keyword", param="json_schema")
    body = {"response_format": {"type": "json_schema", "json_schema": {"schema": SCHEMA}}}
    assert error_of(await post(client, path, base | body))["param"] == "response_format"


async def test_every_prompt_of_a_list_gets_the_form() -> None:
    client = FakeEngineClient([[chunk("a", finish=STOP), chunk("b", index=1, finish=STOP)]])
    await post(client, "/v1/completions", {"prompt": ["x", "y"], "regex": "a+"})
    assert list(client.requests[0].grammars) == [GrammarSpec(kind="regex", text="a+")] * 2
