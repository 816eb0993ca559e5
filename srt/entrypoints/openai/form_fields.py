"""Fields that say what form an answer must have, in OpenAI's, SGLang's and vLLM's words, as a GrammarSpec."""

from typing import Any, NamedTuple

import msgspec

from srt.constrained.grammar_spec import GrammarKind, GrammarSpec
from srt.entrypoints.grammar_fields import (
    ANY_OBJECT,
    choice_grammar,
    json_schema_grammar,
    structural_tag_grammar,
)
from srt.entrypoints.refused_fields import Refused, refuse_fields
from srt.entrypoints.sampling_fields import SamplingFields
from srt.errors import InvalidRequest

# As an object or as its text.
JsonObject = dict[str, Any] | str


class NamedSchema(msgspec.Struct, kw_only=True):
    """A schema with its name. It is always enforced, `strict` or not."""

    name: str | None = None
    description: str | None = None
    schema: JsonObject | None = None
    strict: bool | None = None


class ResponseFormat(msgspec.Struct, kw_only=True):
    """OpenAI's way: text, json_object, json_schema; and structural_tag, in xgrammar's words."""

    type: str
    json_schema: NamedSchema | None = None
    format: dict[str, Any] | None = None
    structures: list[dict[str, Any]] | None = None
    triggers: list[str] | None = None

    def grammar(self) -> GrammarSpec | None:
        """What it means. Raises InvalidRequest."""
        match self.type:
            case "text":
                return None
            case "json_object":
                return ANY_OBJECT
            case "json_schema":
                param = "response_format.json_schema.schema"
                if self.json_schema is None or self.json_schema.schema is None:
                    raise InvalidRequest(f"{param} is missing", param=param)
                return json_schema_grammar(self.json_schema.schema, param=param)
            case "structural_tag":
                parts = {"format": self.format, "structures": self.structures, "triggers": self.triggers}
                given = {name: part for name, part in parts.items() if part is not None}
                return structural_tag_grammar({"type": "structural_tag", **given}, param="response_format")
            case other:
                param = "response_format.type"
                raise InvalidRequest(f"{param}: there is no type {other[:40]!r}", param=param)


class StructuredOutputs(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """vLLM's way of today."""

    json: JsonObject | None = None
    regex: str | None = None
    choice: list[str] | None = None
    grammar: str | None = None
    json_object: bool | None = None
    structural_tag: JsonObject | None = None
    disable_any_whitespace: Refused = None
    disable_additional_properties: Refused = None
    whitespace_pattern: Refused = None


class NamedGrammar(NamedTuple):
    """A grammar and the field that asked for it."""

    field: str
    grammar: GrammarSpec


class FormFields(SamplingFields, kw_only=True):
    """All of them: OpenAI's, SGLang's, vLLM's of today, and vLLM's of former days.

    On top of the sampling settings, because a struct has one base.
    """

    response_format: ResponseFormat | None = None
    json_schema: JsonObject | None = None
    regex: str | None = None
    ebnf: str | None = None
    structural_tag: JsonObject | None = None
    structured_outputs: StructuredOutputs | None = None
    guided_json: JsonObject | None = None
    guided_regex: str | None = None
    guided_choice: list[str] | None = None
    guided_grammar: str | None = None
    guided_decoding_backend: Refused = None
    guided_whitespace_pattern: Refused = None


def asked_grammar(fields: FormFields) -> NamedGrammar | None:
    """The one form that was asked for. What is empty asks for none. Raises InvalidRequest, also for two."""
    asked: dict[str, GrammarSpec | None] = {}
    if fields.response_format is not None:
        asked["response_format"] = fields.response_format.grammar()
    for field in ("json_schema", "guided_json"):
        asked[field] = _schema(getattr(fields, field), field)
    for field in ("regex", "guided_regex"):
        asked[field] = _as_it_is("regex", getattr(fields, field))
    for field in ("ebnf", "guided_grammar"):
        asked[field] = _as_it_is("ebnf", getattr(fields, field))
    asked["structural_tag"] = _tag(fields.structural_tag, "structural_tag")
    asked["guided_choice"] = _choice(fields.guided_choice, "guided_choice")
    if fields.structured_outputs is not None:
        asked |= _by_field(fields.structured_outputs)
    return _the_only_one(asked)


def _by_field(outputs: StructuredOutputs) -> dict[str, GrammarSpec | None]:
    within = "structured_outputs."
    refuse_fields(outputs, within=within)
    return {
        f"{within}json": _schema(outputs.json, f"{within}json"),
        f"{within}regex": _as_it_is("regex", outputs.regex),
        f"{within}choice": _choice(outputs.choice, f"{within}choice"),
        f"{within}grammar": _as_it_is("ebnf", outputs.grammar),
        f"{within}json_object": ANY_OBJECT if outputs.json_object else None,
        f"{within}structural_tag": _tag(outputs.structural_tag, f"{within}structural_tag"),
    }


def _the_only_one(asked: dict[str, GrammarSpec | None]) -> NamedGrammar | None:
    given = [NamedGrammar(field, grammar) for field, grammar in asked.items() if grammar is not None]
    if len(given) > 1:
        raise InvalidRequest(
            f"{given[1].field} and {given[0].field} exclude each other", param=given[1].field
        )
    return given[0] if given else None


def _schema(value: JsonObject | None, field: str) -> GrammarSpec | None:
    return json_schema_grammar(value, param=field) if value else None


def _tag(value: JsonObject | None, field: str) -> GrammarSpec | None:
    return structural_tag_grammar(value, param=field) if value else None


def _choice(choices: list[str] | None, field: str) -> GrammarSpec | None:
    return choice_grammar(choices, param=field) if choices else None


def _as_it_is(kind: GrammarKind, text: str | None) -> GrammarSpec | None:
    return GrammarSpec(kind=kind, text=text) if text else None
