"""What a schema may say of values of one type, in the words that the back end keeps to."""

import math
import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

from srt.constrained.json_keywords import ENFORCED_FORMATS, OTHER_FORMATS
from srt.constrained.pattern_check import pattern_problem

Schema = bool | dict[str, Any]


class Narrowed(dict[str, Any]):
    """A rewritten schema of one type. The original named none, so it allows all values of other types, too."""


# A subschema and its place, to the same rewritten.
Rewrite = Callable[[Any, str], Schema]
# What JSON may spell as it is, byte by byte.
_PLAIN_NAME = re.compile(r"[ !#-\[\]-~]*")
_MIN_INT64, _MAX_INT64 = -(2**63), 2**63 - 1


class Unenforceable(Exception):
    """A schema that the back end would not keep to, or that nothing can match. For people."""

    def __init__(self, place: str, problem: str) -> None:
        super().__init__(f"{place}: {problem}")


def rewrite_string(schema: Mapping[str, Any], place: str, rewrite: Rewrite) -> dict[str, Any]:
    """Length, or pattern, or format: of several, the back end would enforce one."""
    kept: dict[str, Any] = {}
    for name in ("minLength", "maxLength"):
        if name in schema:
            kept[name] = _count(schema, name, place)
    if kept.get("minLength") == 0:
        del kept["minLength"]
    if "pattern" in schema:
        kept["pattern"] = _pattern(schema["pattern"], place)
    if "format" in schema:
        name = schema["format"]
        if name in OTHER_FORMATS:
            raise Unenforceable(place, f"`format` {name!r} cannot be enforced")
        if name in ENFORCED_FORMATS:
            kept["format"] = name
    if kept.keys() - {"minLength", "maxLength"} and len(kept) > 1:
        one, other, *_ = sorted(kept, key=("pattern", "format", "minLength", "maxLength").index)
        raise Unenforceable(place, f"`{one}` beside `{other}` cannot be enforced")
    return kept


def rewrite_number(schema: Mapping[str, Any], place: str, rewrite: Rewrite) -> dict[str, Any]:
    """Bounds; multiples of whole numbers only, and those are integers."""
    step = _number(schema, "multipleOf", place)
    if step is not None:
        _whole_step(step, place)
        return {"type": "integer", **rewrite_integer(schema, place, rewrite)}
    bounds = {name: _number(schema, name, place) for name in _BOUNDS}
    _check_room(bounds, place)
    return {name: value for name, value in bounds.items() if value is not None}


def rewrite_integer(schema: Mapping[str, Any], place: str, rewrite: Rewrite) -> dict[str, Any]:
    """Inclusive bounds that are integers themselves."""
    bounds = {name: _number(schema, name, place) for name in _BOUNDS}
    lowest = [math.ceil(bounds["minimum"])] if bounds["minimum"] is not None else []
    highest = [math.floor(bounds["maximum"])] if bounds["maximum"] is not None else []
    if bounds["exclusiveMinimum"] is not None:
        lowest.append(math.floor(bounds["exclusiveMinimum"]) + 1)
    if bounds["exclusiveMaximum"] is not None:
        highest.append(math.ceil(bounds["exclusiveMaximum"]) - 1)
    kept: dict[str, Any] = {}
    if lowest:
        kept["minimum"] = max(*lowest, _MIN_INT64)
    if highest:
        kept["maximum"] = min(*highest, _MAX_INT64)
    if kept.get("minimum", 0) > _MAX_INT64 or kept.get("maximum", 0) < _MIN_INT64:
        raise Unenforceable(place, "bounds beyond 64 bits cannot be enforced")
    step = _number(schema, "multipleOf", place)
    return kept if step is None else _multiples(_whole_step(step, place), kept, place)


def rewrite_array(schema: Mapping[str, Any], place: str, rewrite: Rewrite) -> dict[str, Any]:
    """Items, all or one by one, and how many."""
    if schema.get("uniqueItems"):
        raise Unenforceable(place, "`uniqueItems` cannot be enforced")
    kept: dict[str, Any] = {}
    first = schema.get("prefixItems")
    if first is not None:
        if not isinstance(first, list):
            raise Unenforceable(place, "`prefixItems` needs a list of schemas")
        kept["prefixItems"] = [
            rewrite(each, f"{place}/prefixItems/{index}") for index, each in enumerate(first)
        ]
    if isinstance(schema.get("items"), list):
        raise Unenforceable(place, "`items` is one schema for all; use `prefixItems` for one after another")
    # Whoever lists items means these.
    kept["items"] = rewrite(schema.get("items", not first), f"{place}/items")
    for name in ("minItems", "maxItems"):
        if name in schema:
            kept[name] = _count(schema, name, place)
    return kept


def rewrite_object(schema: Mapping[str, Any], place: str, rewrite: Rewrite) -> dict[str, Any]:
    """Properties; others only where the schema says so, or lists none."""
    listed, patterns = _mapping(schema, "properties", place), _mapping(schema, "patternProperties", place)
    asked = schema.get("additionalProperties", schema.get("unevaluatedProperties"))
    others = rewrite(not listed and not patterns if asked is None else asked, f"{place}/additionalProperties")
    properties = {name: rewrite(each, f"{place}/properties/{name}") for name, each in listed.items()}
    required = _required(schema, place)
    for name in required:
        if name not in properties:
            if asked is False:
                raise Unenforceable(place, f"the required property {name!r} is not allowed")
            properties[name] = others or True
    kept: dict[str, Any] = {"properties": properties, "additionalProperties": others, "required": required}
    if patterns:
        _add_pattern(kept, patterns, schema, place, rewrite)
    for name in properties:
        if others is not False and not _PLAIN_NAME.fullmatch(name):
            # The back end would let it come as one of the others, or break a string at its quote.
            raise Unenforceable(
                place, f"property {name!r} beside additional ones cannot be enforced: only plain ASCII names"
            )
    names = schema.get("propertyNames", True)
    if names is not True:
        if properties or patterns:
            raise Unenforceable(place, "`propertyNames` beside properties cannot be enforced")
        rewritten = rewrite(
            {"type": "string", **names} if isinstance(names, dict) else names, f"{place}/propertyNames"
        )
        kept["propertyNames"] = rewritten
    _add_property_counts(kept, schema, place)
    return {name: value for name, value in kept.items() if value not in ({}, [])}


REWRITERS: Mapping[str, Callable[[Mapping[str, Any], str, Rewrite], dict[str, Any]]] = {
    "string": rewrite_string,
    "number": rewrite_number,
    "integer": rewrite_integer,
    "array": rewrite_array,
    "object": rewrite_object,
}
MAX_MULTIPLES = 1000
_BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")


def _whole_step(step: int | float, place: str) -> int:
    if step <= 0 or step != int(step):
        raise Unenforceable(place, "`multipleOf` of what is no whole number cannot be enforced")
    return int(step)


def _multiples(step: int, bounds: dict[str, Any], place: str) -> dict[str, Any]:
    """The back end knows multiples, or bounds; a few numbers can be listed."""
    if not bounds:
        return {"multipleOf": step}
    if len(bounds) == 2:
        first = -(-bounds["minimum"] // step) * step
        multiples = range(first, bounds["maximum"] + 1, step)
        if 0 < len(multiples) <= MAX_MULTIPLES:
            return {"enum": list(multiples)}
    raise Unenforceable(place, "`multipleOf` beside bounds cannot be enforced, unless few numbers are left")


def _add_pattern(
    kept: dict[str, Any], patterns: Mapping[str, Any], schema: Mapping[str, Any], place: str, rewrite: Rewrite
) -> None:
    if len(patterns) > 1:
        raise Unenforceable(place, "`patternProperties` with several patterns cannot be enforced")
    if kept["additionalProperties"] is not False:
        raise Unenforceable(place, "`patternProperties` beside additional properties cannot be enforced")
    ((pattern, each),) = patterns.items()
    _pattern(pattern, place)
    if kept["properties"]:
        # A name that matches would have to satisfy both schemas.
        raise Unenforceable(place, "`patternProperties` beside `properties` cannot be enforced")
    kept["patternProperties"] = {pattern: rewrite(each, f"{place}/patternProperties/{pattern}")}


def _add_property_counts(kept: dict[str, Any], schema: Mapping[str, Any], place: str) -> None:
    is_open = kept["additionalProperties"] is not False or "patternProperties" in kept
    least = _count(schema, "minProperties", place) if "minProperties" in schema else 0
    if least > len(kept["required"]):
        if is_open and least > 1:
            # One name, written twice, would count for two.
            raise Unenforceable(place, "`minProperties` of more than 1 with free names cannot be enforced")
        kept["minProperties"] = least
    if "maxProperties" in schema:
        kept["maxProperties"] = _count(schema, "maxProperties", place)


def _check_room(bounds: Mapping[str, int | float | None], place: str) -> None:
    """The back end writes six decimals at most; where there is no such number, it would write none."""
    lowest = [
        _millionths(bounds["minimum"], math.ceil),
        _millionths(bounds["exclusiveMinimum"], math.floor, 1),
    ]
    highest = [
        _millionths(bounds["maximum"], math.floor),
        _millionths(bounds["exclusiveMaximum"], math.ceil, -1),
    ]
    least, most = (
        [each for each in lowest if each is not None],
        [each for each in highest if each is not None],
    )
    if least and most and max(least) > min(most):
        raise Unenforceable(place, "no number with up to six decimals lies between the bounds")


def _millionths(bound: int | float | None, rounded: Callable[[Fraction], int], beyond: int = 0) -> int | None:
    return None if bound is None else rounded(Fraction(str(bound)) * 10**6) + beyond


def _required(schema: Mapping[str, Any], place: str) -> list[str]:
    names = schema.get("required", [])
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise Unenforceable(place, "`required` needs a list of names")
    return list(dict.fromkeys(names))


def _mapping(schema: Mapping[str, Any], name: str, place: str) -> Mapping[str, Any]:
    value = schema.get(name, {})
    if not isinstance(value, dict):
        raise Unenforceable(place, f"`{name}` needs an object of schemas")
    return value


def _count(schema: Mapping[str, Any], name: str, place: str) -> int:
    value = _number(schema, name, place)
    assert value is not None, f"{name} is not there"
    if value < 0 or value != int(value):
        raise Unenforceable(place, f"`{name}` must be a whole number, 0 or more")
    return int(value)


def _number(schema: Mapping[str, Any], name: str, place: str) -> int | float | None:
    value = schema.get(name)
    if value is None and name not in schema:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Unenforceable(place, f"`{name}` must be a number")
    return value


def _pattern(pattern: Any, place: str) -> str:
    if not isinstance(pattern, str):
        raise Unenforceable(place, "`pattern` must be a text")
    problem = pattern_problem(pattern, in_json=True)
    if problem is not None:
        raise Unenforceable(place, f"pattern {pattern!r}: {problem}")
    return pattern
