"""Whatever a schema's grammar lets through is valid, and what it could not enforce is refused by name."""

import json
from typing import Any

import jsonschema
import pytest

from srt.constrained.grammar_check import checked
from srt.constrained.grammar_spec import GrammarSpec
from srt.constrained.json_schema import MAX_DEPTH, enforceable
from srt.errors import InvalidRequest
from tests.fakes.grammar_walk import allows, compiled, random_texts

INTEGER = {"type": "integer"}
SHORT = {"type": "string", "maxLength": 3}
NODE = {
    "type": "object",
    "properties": {
        "value": INTEGER,
        "kids": {"type": "array", "items": {"$ref": "#/$defs/N"}, "maxItems": 1},
    },
    "required": ["value"],
}
CIRCLE = {
    "type": "object",
    "properties": {"kind": {"const": "circle"}, "r": INTEGER},
    "required": ["kind", "r"],
}
SQUARE = {"type": "object", "properties": {"kind": {"enum": ["square", "rect"]}}, "required": ["kind"]}


def grammar_of(schema: Any) -> Any:
    return compiled(checked(GrammarSpec(kind="json_schema", text=json.dumps(schema))))


@pytest.mark.parametrize(
    "schema",
    [
        True,
        {"type": ["string", "integer", "null"], "minLength": 2, "minimum": 5, "maximum": 9},
        {"enum": ["a", 1, None, {"x": [1.5]}]},
        {"const": 'é\n"\\'},
        {"type": "string", "enum": ["a", "b", 1]},
        {"type": "integer", "minimum": -7.5, "exclusiveMaximum": 3.2},
        {"type": "number", "minimum": 0.1, "maximum": 0.3},
        {"type": "number", "exclusiveMinimum": -1.05, "exclusiveMaximum": -1},
        {"type": "number", "exclusiveMinimum": 0.5, "exclusiveMaximum": 0.500002},
        {"type": "object", "properties": {"é\n": INTEGER, '"': INTEGER}, "required": ["é\n", '"']},
        {"type": "integer", "multipleOf": 7},
        {"type": "number", "multipleOf": 3, "minimum": 0.5, "maximum": 40},
        {"minimum": 3},
        {"type": "string", "minLength": 2, "maxLength": 4},
        {"type": "string", "pattern": '^[a-c]{2}[^a-y"]$|^z$'},
        {"type": "string", "pattern": "x"},
        {"type": "string", "format": "date-time"},
        {"type": "array", "items": INTEGER, "minItems": 2, "maxItems": 3},
        {"type": "array", "prefixItems": [INTEGER, SHORT], "minItems": 2},
        {"type": "array", "minItems": 1},
        {"type": "object"},
        {"type": "object", "properties": {"a": INTEGER, "b": SHORT}, "required": ["b", "c"]},
        {"properties": {"a": INTEGER}, "required": ["a"], "additionalProperties": SHORT},
        {"type": "object", "additionalProperties": INTEGER, "minProperties": 1, "maxProperties": 2},
        {"type": "object", "patternProperties": {"^x": INTEGER}},
        {"type": "object", "propertyNames": {"enum": ["p", "q"]}, "additionalProperties": INTEGER},
        {"type": "object", "properties": {"a": INTEGER, "b": INTEGER}, "minProperties": 1},
        {"$ref": "#/$defs/C", "$defs": {"C": {"enum": ["a", "b"]}}},
        {"type": "object", "properties": {"c": {"$ref": "#/definitions/C~1D"}}, "required": ["c"]}
        | {"definitions": {"C/D": {"enum": ["a"]}}},
        {"$ref": "#/$defs/N", "$defs": {"N": NODE}},
        {"type": "object", "properties": {"n": INTEGER, "next": {"$ref": "#"}}, "required": ["n"]},
        {"anyOf": [INTEGER, {"type": "null"}], "title": "maybe", "default": None},
        {"oneOf": [INTEGER, SHORT]},
        {"oneOf": [CIRCLE, SQUARE], "discriminator": {"propertyName": "kind"}},
        {"allOf": [{"$ref": "#/$defs/C"}], "description": "x", "$defs": {"C": CIRCLE}},
        {"type": "object", "properties": {"a": {"$ref": "#"}, "b": {"type": "string", "pattern": "^a.*b$"}}},
    ],
    ids=lambda schema: json.dumps(schema)[:60],
)
def test_what_is_let_through_is_valid(schema: Any) -> None:
    texts = random_texts(grammar_of(schema), 40)
    assert len(texts) >= 5
    for text in texts:
        jsonschema.validate(json.loads(text), schema, format_checker=jsonschema.FormatChecker())


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        ({"not": INTEGER}, "`not`"),
        ({"if": INTEGER, "then": {"minimum": 1}}, "`if`"),
        ({"type": "array", "uniqueItems": True}, "`uniqueItems`"),
        ({"type": "array", "contains": INTEGER}, "`contains`"),
        ({"type": "array", "items": [INTEGER]}, "`prefixItems`"),
        ({"type": "array", "items": "notaschema"}, "#/items: a schema is an object"),
        ({"type": "object", "dependentRequired": {"a": ["b"]}}, "`dependentRequired`"),
        ({"type": "object", "properties": {"x": {"not": {}}}}, "#/properties/x: `not`"),
        ({"type": "object", "properties": {"xa": INTEGER}, "patternProperties": {"^x": SHORT}}, "beside"),
        ({"type": "object", "patternProperties": {"^x": INTEGER, "y$": SHORT}}, "several patterns"),
        (
            {"type": "object", "properties": {"a": INTEGER}, "propertyNames": {"maxLength": 1}},
            "`propertyNames`",
        ),
        ({"type": "object", "minProperties": 2}, "`minProperties`"),
        ({"type": "object", "required": ["b"], "additionalProperties": False}, "'b' is not allowed"),
        ({"type": "number", "multipleOf": 0.5}, "`multipleOf`"),
        ({"type": "integer", "multipleOf": 7, "maximum": -3}, "`multipleOf` beside bounds"),
        ({"type": "integer", "exclusiveMinimum": True}, "must be a number"),
        ({"type": "string", "pattern": "a", "maxLength": 3}, "`pattern` beside `maxLength`"),
        ({"type": "string", "format": "date", "minLength": 20}, "`format` beside `minLength`"),
        ({"type": "string", "format": "regex"}, "`format` 'regex'"),
        ({"type": "string", "pattern": "a(?!b)c"}, "(?!b is not supported"),
        ({"type": "string", "pattern": '^"$'}, "escaped"),
        ({"allOf": [INTEGER, {"maximum": 3}]}, "`allOf`"),
        ({"oneOf": [INTEGER, {"type": "number"}]}, "`oneOf`"),
        ({"oneOf": [CIRCLE, CIRCLE]}, "`oneOf`"),
        ({"oneOf": [{"minimum": 3}, {"type": "string"}]}, "`oneOf`"),
        ({"oneOf": [{"minimum": 3}, {"maxLength": 3}]}, "`oneOf`"),
        ({"oneOf": [{"type": "null"}, {"$ref": "#/$defs/C"}], "$defs": {"C": {"maxLength": 3}}}, "`oneOf`"),
        ({"type": "number", "minimum": 1e-7, "maximum": 2e-7}, "between the bounds"),
        ({"type": "number", "exclusiveMinimum": 0.5, "exclusiveMaximum": 0.500001}, "between the bounds"),
        ({"properties": {'a"': INTEGER}, "additionalProperties": True}, "plain ASCII names"),
        ({"properties": {"é": INTEGER}, "additionalProperties": SHORT}, "plain ASCII names"),
        ({"required": ["\n"], "additionalProperties": True}, "plain ASCII names"),
        ({"type": "integer", "anyOf": [{"minimum": 10}, {"maximum": -10}]}, "`anyOf` beside `type`"),
        ({"enum": ["a", "bbbb"], "maxLength": 2}, "`enum` beside `maxLength`"),
        ({"const": 1, "type": "string"}, "`const`"),
        ({"$ref": "http://example.org/s"}, "only #/…"),
        ({"$ref": "#/$defs/none"}, "leads nowhere"),
        ({"$ref": "#"}, "leads back to itself"),
        ({"$ref": "#/$defs/C", "maxLength": 0, "$defs": {"C": SHORT}}, "`$ref` beside `maxLength`"),
        ({"type": "frob"}, "no type 'frob'"),
        ({"anyOf": []}, "`anyOf`"),
        (7, "a schema is an object or a boolean"),
    ],
    ids=str,
)
def test_what_would_not_be_enforced_is_refused_by_name(schema: Any, problem: str) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        enforceable(json.dumps(schema))
    assert problem in refusal.value.message
    assert refusal.value.param == "json_schema"


def test_nesting_has_an_end() -> None:
    deep: Any = {}
    for _ in range(MAX_DEPTH + 1):
        deep = {"type": "array", "items": deep}
    with pytest.raises(InvalidRequest, match="deep"):
        enforceable(json.dumps(deep))
    with pytest.raises(InvalidRequest, match="JSON"):
        enforceable("[" * 100_000)


def test_keywords_about_other_types_and_unknown_ones_change_nothing() -> None:
    schema = {"type": "integer", "maxLength": 1, "x-note": 3, "title": "t", "nullable": True}
    assert json.loads(enforceable(json.dumps(schema))) == INTEGER


def test_a_json_object_may_have_anything_in_it() -> None:
    grammar = grammar_of({"type": "object"})
    assert allows(grammar, '{"a": [1, {"b": null}], "c": "d"}')
    assert not allows(grammar, "[1]")


def test_listed_properties_come_in_their_order_and_alone() -> None:
    grammar = grammar_of({"type": "object", "properties": {"a": INTEGER, "b": INTEGER}})
    assert allows(grammar, '{"a": 1, "b": 2}')
    assert not allows(grammar, '{"b": 2, "a": 1}')
    assert not allows(grammar, '{"a": 1, "z": 2}')


@pytest.mark.parametrize("limit", [{"minLength": 1}, {"maxLength": 9}, {"minLength": 1, "maxLength": 9}])
@pytest.mark.parametrize("as_name", [False, True])
def test_a_string_of_a_certain_length_is_json_too(limit: dict[str, int], as_name: bool) -> None:
    string = {"type": "string", **limit}
    schema = (
        {"type": "object", "propertyNames": string, "additionalProperties": INTEGER} if as_name else string
    )
    grammar = grammar_of(schema)
    for text in ("a", "\x7f é", "[^", "日本"):
        assert allows(grammar, f'{{"{text}": 1}}' if as_name else f'"{text}"')
    for text in ("\t", "a\x00", "\x1f", "a\nb", '"', "\\"):
        assert not allows(grammar, f'{{"{text}": 1}}' if as_name else f'"{text}"')


def test_what_is_quoted_stays_beside_a_string_of_a_certain_length() -> None:
    odd = '[^"\\\r\n]'
    grammar = grammar_of({"type": "object", "properties": {odd: SHORT, "b": {"const": odd}}})
    assert allows(grammar, json.dumps({odd: "abc", "b": odd}, ensure_ascii=False))


@pytest.mark.parametrize(
    "bounds", [{"minimum": 0, "maximum": 2**64 - 1}, {"minimum": -(2**70), "maximum": 5}]
)
def test_integers_are_within_64_bits_where_a_bound_is_not(bounds: dict[str, int]) -> None:
    grammar = grammar_of({"type": "integer", **bounds})
    assert allows(grammar, "5")
    assert not allows(grammar, "118446744073709551616")
    assert not allows(grammar, "-11180591620717411303424")
