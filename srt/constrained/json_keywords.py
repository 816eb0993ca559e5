"""The keywords of JSON Schema (draft 2020-12, and what is left of drafts 4 to 7), by what becomes of them here.

Whatever is not named here says nothing of values: titles, examples, unknown words. It is left out, so that grammars
which differ in that only are one.
"""

# Would be ignored by the back end without a word, and cannot be expressed by what it does enforce.
NOT_ENFORCED = frozenset(
    {
        *(
            "not",
            "if",
            "dependentRequired",
            "dependentSchemas",
            "dependencies",
            "contains",
            "unevaluatedItems",
        ),
        *("additionalItems", "$dynamicRef", "$recursiveRef", "extends", "disallow", "divisibleBy"),
    }
)
# Each is about values of one type and says nothing of others.
TYPES_OF_KEYWORDS = {
    "string": frozenset({"minLength", "maxLength", "pattern", "format"}),
    "number": frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}),
    "array": frozenset({"items", "prefixItems", "minItems", "maxItems", "uniqueItems"}),
    "object": frozenset(
        {
            *("properties", "required", "additionalProperties", "patternProperties", "propertyNames"),
            *("minProperties", "maxProperties", "unevaluatedProperties"),
        }
    ),
}
TYPES = ("string", "number", "integer", "boolean", "null", "array", "object")
COMBINATORS = ("$ref", "const", "enum", "anyOf", "oneOf", "allOf")

# By their shape: a date may be the 31st of November.
ENFORCED_FORMATS = frozenset(
    {
        *("date", "time", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "uuid", "uri"),
        *("uri-reference", "uri-template", "json-pointer", "relative-json-pointer"),
    }
)
# JSON Schema defines them too; any other format is a remark for tools.
OTHER_FORMATS = frozenset({"idn-email", "idn-hostname", "iri", "iri-reference", "regex"})


def keywords_of(json_type: str) -> frozenset[str]:
    """Those that say something of values of this type."""
    return TYPES_OF_KEYWORDS.get("number" if json_type == "integer" else json_type, frozenset())


def has_type(value: object, json_type: str) -> bool:
    """Whether a JSON value is of a type; 1.0 is an integer, true is no number."""
    match value:
        case None:
            return json_type == "null"
        case bool():
            return json_type == "boolean"
        case int():
            return json_type in ("integer", "number")
        case float():
            return json_type == "number" or (json_type == "integer" and value.is_integer())
        case str():
            return json_type == "string"
        case list():
            return json_type == "array"
        case _:
            return json_type == "object"
