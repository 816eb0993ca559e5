"""`enforceable`: a JSON schema in the words that the back end keeps to, or the reason why there are none.

xgrammar reads over much of JSON Schema without a word: a keyword that it does not know, several alternatives of
allOf, a bound beside a pattern. Here every schema is either rewritten so that whatever the grammar allows is valid, or
refused. The grammar may allow less: objects that list their properties have no others unless the schema says so, in
the order in which they are listed, and patterns match whole strings.
"""

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import unquote

import msgspec

from srt.constrained.json_alternatives import are_exclusive
from srt.constrained.json_keywords import (
    COMBINATORS,
    NOT_ENFORCED,
    TYPES,
    TYPES_OF_KEYWORDS,
    has_type,
    keywords_of,
)
from srt.constrained.json_types import REWRITERS, Narrowed, Schema, Unenforceable
from srt.errors import InvalidRequest

MAX_DEPTH = 64
MAX_NODES = 20_000


def enforceable(text: str) -> str:
    """The rewritten schema, as text. Raises InvalidRequest that names the place and the keyword."""
    try:
        document = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise InvalidRequest(f"not valid JSON: {error}", param="json_schema") from None
    try:
        return msgspec.json.encode(_Rewriter(document).rewrite_document()).decode()
    except Unenforceable as problem:
        raise InvalidRequest(str(problem), param="json_schema") from None


class _Rewriter:
    """One document. What its references point at becomes a definition of its own, so that pointers stay right."""

    def __init__(self, document: Any) -> None:
        self._document = document
        self._names: dict[str, str] = {}  # of definitions, by the reference
        self._definitions: dict[str, Schema] = {}
        self._num_nodes = 0

    def rewrite_document(self) -> Schema:
        rewritten = self.rewrite(self._document, "#", 0)
        if not self._definitions:
            return rewritten
        if isinstance(rewritten, bool):
            return rewritten
        return {**rewritten, "$defs": self._definitions}

    def rewrite(self, schema: Any, place: str, depth: int) -> Schema:
        """One subschema; `place` is for people."""
        self._num_nodes += 1
        if depth > MAX_DEPTH:
            raise Unenforceable(place, f"nested more than {MAX_DEPTH} deep")
        if self._num_nodes > MAX_NODES:
            raise Unenforceable("#", f"more than {MAX_NODES} subschemas")
        if isinstance(schema, bool):
            return schema
        if not isinstance(schema, dict):
            raise Unenforceable(place, "a schema is an object or a boolean")
        for keyword in schema:
            if keyword in NOT_ENFORCED:
                raise Unenforceable(place, f"`{keyword}` cannot be enforced")
        combinators = [keyword for keyword in COMBINATORS if keyword in schema]
        if len(combinators) > 1:
            raise Unenforceable(place, f"`{combinators[0]}` beside `{combinators[1]}` cannot be enforced")
        if not combinators:
            return self._rewrite_typed(schema, place, depth)
        return self._rewrite_combinator(combinators[0], schema, place, depth)

    def _rewrite_combinator(self, keyword: str, schema: Mapping[str, Any], place: str, depth: int) -> Schema:
        value = schema[keyword]
        if keyword in ("const", "enum"):
            return _one_of_values([value] if keyword == "const" else value, schema, keyword, place)
        for other in schema:
            if _asserts(other) and other != keyword:
                raise Unenforceable(place, f"`{keyword}` beside `{other}` cannot be enforced")
        if keyword == "$ref":
            return {"$ref": f"#/$defs/{self._definition(value, place, depth)}"}
        if not isinstance(value, list) or not value:
            raise Unenforceable(place, f"`{keyword}` needs a list of schemas")
        if keyword == "allOf":
            if len(value) > 1:
                raise Unenforceable(place, "`allOf` of several schemas cannot be enforced")
            return self.rewrite(value[0], f"{place}/allOf/0", depth + 1)
        alternatives = [
            self.rewrite(each, f"{place}/{keyword}/{index}", depth + 1) for index, each in enumerate(value)
        ]
        alternatives = [each for each in alternatives if each is not False]
        if not alternatives:
            raise Unenforceable(place, f"`{keyword}` allows nothing")
        if keyword == "oneOf" and not are_exclusive(alternatives, self._definitions):
            raise Unenforceable(
                place, "`oneOf` with alternatives that may overlap cannot be enforced: use `anyOf`"
            )
        return {"anyOf": alternatives}

    def _rewrite_typed(self, schema: Mapping[str, Any], place: str, depth: int) -> Schema:
        json_types = _types(schema, place)
        if json_types is None:
            return True
        make = dict[str, Any] if "type" in schema else Narrowed
        variants: list[Schema] = []
        for json_type in json_types:
            own = {name: value for name, value in schema.items() if name in keywords_of(json_type)}
            rewriter = REWRITERS.get(json_type)
            keywords = (
                rewriter(own, place, lambda each, where: self.rewrite(each, where, depth + 1))
                if rewriter
                else {}
            )
            variants.append(make({"type": json_type, **keywords}))
        return variants[0] if len(variants) == 1 else {"anyOf": variants}

    def _definition(self, reference: Any, place: str, depth: int) -> str:
        """The name under which the reference's target is defined."""
        if not isinstance(reference, str) or not (reference == "#" or reference.startswith("#/")):
            raise Unenforceable(place, f"`$ref` {reference!r}: only #/… within the schema can be followed")
        name = self._names.get(reference)
        if name is not None:
            return name
        name = self._names[reference] = f"d{len(self._names)}"
        target, seen = self._find(reference, place), {reference}
        while isinstance(target, dict) and isinstance(target.get("$ref"), str):
            if target["$ref"] in seen:
                raise Unenforceable(place, f"`$ref` {reference!r} leads back to itself")
            seen.add(target["$ref"])
            target = self._find(target["$ref"], place)
        self._definitions[name] = True  # until it is known
        self._definitions[name] = self.rewrite(self._find(reference, place), reference, depth + 1)
        return name

    def _find(self, reference: str, place: str) -> Any:
        target = self._document
        for part in reference.split("/")[1:]:
            key = unquote(part).replace("~1", "/").replace("~0", "~")
            if isinstance(target, dict) and key in target:
                target = target[key]
            elif isinstance(target, list) and key.isdecimal() and int(key) < len(target):
                target = target[int(key)]
            else:
                raise Unenforceable(place, f"`$ref` {reference!r} leads nowhere")
        return target


def _asserts(keyword: str) -> bool:
    """Whether a keyword says something of values. Unknown ones do not."""
    return (
        keyword == "type"
        or keyword in COMBINATORS
        or any(keyword in own for own in TYPES_OF_KEYWORDS.values())
    )


def _one_of_values(values: Any, schema: Mapping[str, Any], keyword: str, place: str) -> Schema:
    if not isinstance(values, list) or not values:
        raise Unenforceable(place, f"`{keyword}` needs values")
    json_types = _declared_types(schema, place)
    if json_types is not None:
        values = [value for value in values if any(has_type(value, json_type) for json_type in json_types)]
    if not values:
        raise Unenforceable(place, f"no value of `{keyword}` has the `type`")
    for other in schema:
        about = [name for name, own in TYPES_OF_KEYWORDS.items() if other in own]
        if about and any(has_type(value, about[0]) for value in values):
            raise Unenforceable(place, f"`{keyword}` beside `{other}` cannot be enforced")
    return {"enum": values}


def _declared_types(schema: Mapping[str, Any], place: str) -> Sequence[str] | None:
    if "type" not in schema:
        return None
    declared = schema["type"]
    names = [declared] if isinstance(declared, str) else declared
    if not isinstance(names, list) or not names:
        raise Unenforceable(place, "`type` is a name or a list of names")
    for name in names:
        if name not in TYPES:
            raise Unenforceable(place, f"there is no type {name!r}")
    if "number" in names:
        names = [name for name in names if name != "integer"]
    return list(dict.fromkeys(names))


def _types(schema: Mapping[str, Any], place: str) -> Sequence[str] | None:
    """Declared, else those that the keywords are about; None: any value will do."""
    declared = _declared_types(schema, place)
    if declared is not None:
        return declared
    return [name for name, own in TYPES_OF_KEYWORDS.items() if any(each in schema for each in own)] or None
