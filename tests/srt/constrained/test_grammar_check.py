"""Patterns and tags before they are compiled."""

import json

import pytest

from srt.constrained.grammar_check import MAX_TEXT_BYTES, checked
from srt.constrained.grammar_spec import GrammarKind, GrammarSpec
from srt.constrained.pattern_check import pattern_problem
from srt.errors import InvalidRequest
from tests.fakes.grammar_walk import allows, compiled


@pytest.mark.parametrize("pattern", ["", "^ab$", "a|b", "^a$|^b$", r"\^\$", "[$^]", "(?:a|b)+", "(?P<n>a)"])
def test_a_pattern_that_means_what_it_says(pattern: str) -> None:
    assert pattern_problem(pattern, in_json=False) is None


@pytest.mark.parametrize(
    "pattern", ["a^b", "a$b", "(^a)", "(?i)a", "(?=a)b", "a(?!b)", "(?<=a)b", "(?<!a)b", "[]a]", "[^]a]"]
)
def test_what_the_back_end_would_ignore_is_refused(pattern: str) -> None:
    assert pattern_problem(pattern, in_json=False) is not None


@pytest.mark.parametrize(
    ("pattern", "is_fine"),
    [
        ('^[^"\\\\]*$', True),
        (".", True),
        ("[!-~]", True),
        ('"', False),
        (r"\\", False),
        (r"\x22", False),
        ('["a]', False),
        (r"\u005c", False),
        (r"a\tb", False),
        ("\n", False),
        (r"\x1f", False),
        (r"[\x00-\x1f]", False),
        (r"[\b]", False),
        (r"[ \t]", True),
        (r"[\w\n]", True),
        (r"[^\t]", True),
    ],
)
def test_a_pattern_inside_json_cannot_write_what_must_be_escaped(pattern: str, is_fine: bool) -> None:
    assert (pattern_problem(pattern, in_json=True) is None) == is_fine
    assert pattern_problem(pattern, in_json=False) is None


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("regex", "(unclosed"),
        ("regex", r"(a)\1"),
        ("regex", r"\bfoo"),
        ("ebnf", ""),
        ("ebnf", "root ::= "),
        ("ebnf", "root ::= undefined"),
        ("ebnf", "root ::= root"),
        ("ebnf", 'start ::= "a"'),
        ("structural_tag", "{}"),
        ("structural_tag", '{"structures": 3}'),
        ("structural_tag", '{"type": "structural_tag", "format": {"json_schema": {"not": {}}}}'),
        ("structural_tag", '{"type": "structural_tag", "format": {"json_schema": {}, "any_order": true}}'),
        (
            "structural_tag",
            '{"type": "structural_tag", "format": {"json_schema": {}, "max_whitespace_cnt": "1"}}',
        ),
        (
            "structural_tag",
            '{"type": "structural_tag", "format": {"type": "qwen_xml_parameter", "json_schema": {"not": {}}}}',
        ),
        ("structural_tag", '{"type": "structural_tag", "format": {"type": "regex", "pattern": "a^b"}}'),
        ("json_schema", "false"),
        ("regex", "a" * (MAX_TEXT_BYTES + 1)),
    ],
)
def test_a_bad_grammar_is_the_clients_error(kind: GrammarKind, text: str) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        compiled(checked(GrammarSpec(kind=kind, text=text)))
    assert refusal.value.param == kind
    assert ".cc:" not in refusal.value.message


def test_an_ambiguous_grammar_takes_too_long_to_follow() -> None:
    text = "root ::= (x x x x)*\nx ::= [a-z]* | [b-y]* y\ny ::= [a-z] [a-z]* root"
    with pytest.raises(InvalidRequest, match="ambiguous"):
        compiled(GrammarSpec(kind="ebnf", text=text))


def test_schemas_inside_tags_are_looked_through_too() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "array", "uniqueItems": True}}}
    tag = {"begin": "<f>", "content": {"type": "json_schema", "json_schema": schema}, "end": "</f>"}
    spec = GrammarSpec(
        kind="structural_tag",
        text=json.dumps({"type": "structural_tag", "format": {"type": "tag", **tag}}),
    )
    with pytest.raises(InvalidRequest, match="uniqueItems"):
        checked(spec)


def test_tags_of_former_days_are_tags_in_a_free_text() -> None:
    former = {
        "type": "structural_tag",
        "structures": [{"begin": "<f>", "schema": {"type": "boolean"}, "end": "</f>"}],
        "triggers": ["<f"],
    }
    grammar = compiled(checked(GrammarSpec(kind="structural_tag", text=json.dumps(former))))
    assert allows(grammar, "so: <f>true</f> and on")
    assert not allows(grammar, "so: <f>maybe</f>")


def test_an_answer_cannot_be_filled_with_blanks_inside_tags_either() -> None:
    content = {"type": "json_schema", "json_schema": {"type": "array", "items": {"type": "integer"}}}
    tag = {
        "type": "structural_tag",
        "format": {"type": "tag", "begin": "<f>", "content": content, "end": "</f>"},
    }
    grammar = compiled(checked(GrammarSpec(kind="structural_tag", text=json.dumps(tag))))
    assert allows(grammar, "<f>[1" + " " * 16 + "]</f>")
    assert not allows(grammar, "<f>[1" + " " * 17 + "]</f>")
    content["max_whitespace_cnt"] = 1
    grammar = compiled(checked(GrammarSpec(kind="structural_tag", text=json.dumps(tag))))
    assert not allows(grammar, "<f>[1  ]</f>")
