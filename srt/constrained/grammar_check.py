"""`checked`: a grammar as the back end shall read it, or why it cannot. Quick, and before anything is compiled."""

from typing import Any

import msgspec

from srt.constrained.grammar_spec import GrammarSpec
from srt.constrained.json_schema import enforceable
from srt.constrained.pattern_check import pattern_problem
from srt.errors import InvalidRequest

MAX_TEXT_BYTES = 256 * 1024
MAX_TAG_DEPTH = 64
# Between two tokens of JSON: enough to indent, too little to fill an answer with.
MAX_WHITESPACE = 16


def checked(spec: GrammarSpec) -> GrammarSpec:
    """The same, or one that says the same in a way the back end keeps to. Raises InvalidRequest."""
    if len(spec.text.encode(errors="surrogatepass")) > MAX_TEXT_BYTES:
        raise InvalidRequest(f"a grammar may have {MAX_TEXT_BYTES} bytes at most", param=spec.kind)
    if spec.begins_after == "":
        raise InvalidRequest("what a grammar begins after must not be empty", param=spec.kind)
    match spec.kind:
        case "json_schema":
            return msgspec.structs.replace(spec, text=enforceable(spec.text))
        case "regex":
            _check_pattern(spec.text, "regex")
            return spec
        case "ebnf":
            return spec
        case "structural_tag":
            return msgspec.structs.replace(spec, text=_checked_tag(spec.text))


def _check_pattern(pattern: str, param: str) -> None:
    problem = pattern_problem(pattern, in_json=False)
    if problem is not None:
        raise InvalidRequest(f"pattern {pattern!r}: {problem}", param=param)


def _checked_tag(text: str) -> str:
    try:
        tag = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise InvalidRequest(f"not valid JSON: {error}", param="structural_tag") from None
    if isinstance(tag, dict) and "structures" in tag:
        tag = _of_former_days(tag)
    return msgspec.json.encode(_checked_format(tag, 0)).decode()


def _of_former_days(tag: dict[str, Any]) -> dict[str, Any]:
    """`structures` and `triggers`: tags in a free text, as SGLang spelled them first."""
    structures = tag["structures"]
    if not isinstance(structures, list) or not all(isinstance(each, dict) for each in structures):
        raise InvalidRequest("`structures` is a list of objects", param="structural_tag")
    tags = [
        {
            "begin": each.get("begin"),
            "content": {"type": "json_schema", "json_schema": each.get("schema") or {}},
            "end": each.get("end"),
        }
        for each in structures
    ]
    triggered = {"type": "triggered_tags", "triggers": tag.get("triggers"), "tags": tags}
    if "at_least_one" in tag:
        triggered["at_least_one"] = tag["at_least_one"]
    return {"type": "structural_tag", "format": triggered}


def _checked_format(part: Any, depth: int) -> Any:
    """A part of a tag, its schemas rewritten, its patterns checked."""
    if depth > MAX_TAG_DEPTH:
        raise InvalidRequest(f"nested more than {MAX_TAG_DEPTH} deep", param="structural_tag")
    if isinstance(part, list):
        return [_checked_format(each, depth + 1) for each in part]
    if not isinstance(part, dict):
        return part
    if "json_schema" in part:
        return _checked_schema_format(part)
    if part.get("type") == "regex" and isinstance(part.get("pattern"), str):
        _check_pattern(part["pattern"], "structural_tag")
    return {name: _checked_format(each, depth + 1) for name, each in part.items()}


def _checked_schema_format(part: dict[str, Any]) -> dict[str, Any]:
    """Whatever its type: xgrammar has several with schemas, and guesses where there is none."""
    for field in ("any_order", "excludes"):
        if part.get(field):
            raise InvalidRequest(f"`{field}` would switch off parts of its schema", param="structural_tag")
    kept = {
        "type": "json_schema",
        **part,
        "json_schema": msgspec.json.decode(_rewritten(part["json_schema"])),
    }
    if kept["type"] == "json_schema":
        asked = part.get("max_whitespace_cnt")
        kept["max_whitespace_cnt"] = MAX_WHITESPACE if asked is None else min(_whole(asked), MAX_WHITESPACE)
    return kept


def _whole(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise InvalidRequest("`max_whitespace_cnt` must be a whole number, 0 or more", param="structural_tag")
    return value


def _rewritten(schema: Any) -> str:
    try:
        return enforceable(msgspec.json.encode(schema).decode())
    except InvalidRequest as error:
        raise InvalidRequest(error.message, param="structural_tag") from None
