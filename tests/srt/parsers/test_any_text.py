"""Whatever a model writes: nothing raises, cuts change nothing, and without a call nothing is lost."""

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from srt.parsers.answer import AnswerParser, AnswerPart, CallArguments, CallBegin, Content, Reasoning
from srt.parsers.reasoning.formats import REASONING_FORMATS
from srt.parsers.registry import make_answer_parser
from srt.parsers.tool_calls.formats import JSON_ARRAY, TOOL_CALL_FORMATS
from tests.srt.parsers.answers import ANSWERS, TOOLS, parts_of

CALL_FORMATS = {**TOOL_CALL_FORMATS, JSON_ARRAY.name: JSON_ARRAY}
# Texts of a format, and what strays into them.
STRAY = (
    "<",
    "</",
    "[",
    "{",
    "}",
    '"',
    "\\",
    "\n",
    " ",
    "a",
    ",",
    ")",
    "]",
    "<think>",
    "</think>",
    "```",
    "é",
    "<|",
    "｜",
)


@st.composite
def broken_texts(draw: st.DrawFn) -> tuple[str, str]:
    """A format, and slices of its answers with something between them."""
    name = draw(st.sampled_from(sorted(CALL_FORMATS)))
    known = [answer.text for answer in ANSWERS if answer.parser == name] or [
        answer.text for answer in ANSWERS
    ]
    pieces = []
    for _ in range(draw(st.integers(1, 4))):
        text = draw(st.sampled_from(known))
        start = draw(st.sampled_from([0, 0, draw(st.integers(0, len(text)))]))
        pieces.append(text[start : start + draw(st.integers(0, len(text)))])
        pieces.append(draw(st.sampled_from(["", *STRAY])))
    return name, "".join(pieces)


def parser_of(name: str, reasoning: str | None, *, starts_inside: bool) -> AnswerParser:
    return make_answer_parser(
        CALL_FORMATS[name],
        None if reasoning is None else REASONING_FORMATS[reasoning],
        tools=TOOLS,
        starts_in_reasoning=starts_inside,
    )


@given(broken_texts(), st.sampled_from([None, "qwen3"]), st.booleans(), st.integers(1, 9))
@settings(max_examples=600, deadline=None)
def test_any_text(
    format_and_text: tuple[str, str], reasoning: str | None, starts_inside: bool, size: int
) -> None:
    name, text = format_and_text
    whole = parser_of(name, reasoning, starts_inside=starts_inside)
    parts = parts_of(whole, [text])
    for pieces in (text, [text[place : place + size] for place in range(0, len(text), size)]):
        parser = parser_of(name, reasoning, starts_inside=starts_inside)
        assert parts_of(parser, pieces) == parts
        assert (parser.num_calls, parser.is_inside_call) == (whole.num_calls, whole.is_inside_call)
    check_calls(parts, whole)
    if not whole.num_calls and reasoning is None:
        assert parts == ([Content(text)] if text else [])


def check_calls(parts: list[AnswerPart], parser: AnswerParser) -> None:
    """Calls are numbered, known, and JSON if they are whole; reasoning is the first part if there is one."""
    names = [part.name for part in parts if isinstance(part, CallBegin)]
    assert [part.index for part in parts if isinstance(part, CallBegin)] == list(range(parser.num_calls))
    assert set(names) <= {tool["function"]["name"] for tool in TOOLS}
    assert not any(isinstance(part, Reasoning) for part in parts[1:])
    arguments = [part for part in parts if isinstance(part, CallArguments)]
    assert len({part.index for part in arguments}) == len(arguments)
    if not parser.is_inside_call:
        assert [part.index for part in arguments] == list(range(parser.num_calls))
        for part in arguments:
            assert isinstance(json.loads(part.text), dict)
