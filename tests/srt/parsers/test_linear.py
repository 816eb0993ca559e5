"""A piece costs what it holds, however long the answer is already. Counted in lines that run, not in time."""

import sys
from collections.abc import Iterable
from types import FrameType
from typing import Any

import pytest

from srt.parsers.answer import AnswerParser, CallArguments
from srt.parsers.known_tools import KnownTools
from srt.parsers.registry import make_answer_parser, reasoning_format, tool_call_format
from srt.parsers.tool_calls.format import ToolCallParser
from tests.srt.parsers.answers import TOOLS, parts_of

LONGEST_MARKER = 64


def lines_run(parser: AnswerParser, pieces: Iterable[str]) -> int:
    """How many lines of Python a parser runs for a text."""
    num_lines = 0

    def count(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal num_lines
        num_lines += event == "line"
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        for piece in pieces:
            parser.push(piece)
        parser.finish()
    finally:
        sys.settrace(before)
    return num_lines


def string(num_chars: int) -> str:
    return 'a}\\"]{<' * (num_chars // 7)


# The text before, of length n, and behind what grows.
GROWING = {
    "hermes arguments": ("hermes", '<tool_call>{"name": "get_weather", "arguments": {"city": "', '"}}</tool_call>'),
    "hermes arguments before the name": (
        "hermes",
        '<tool_call>{"arguments": {"city": "',
        '"}, "name": "get_weather"}</tool_call>',
    ),
    "hermes members that say nothing": ("hermes", '<tool_call>{"x": "', '", "name": "get_weather"}</tool_call>'),
    "hermes content": ("hermes", "", ""),
    "a marker and a name without end": ("hermes", '<tool_call>{"name": "', ""),
    "pythonic arguments": ("pythonic", '[get_weather(city="', '")]'),
    "qwen3_coder string": ("qwen3_coder", "<function=get_weather><parameter=city>", "</parameter></function>"),
    "qwen3_coder other value": ("qwen3_coder", "<function=get_weather><parameter=range>", "</parameter></function>"),
    "glm45 key": ("glm45", "<tool_call>get_weather<arg_key>", "</arg_key>"),
    "kimi name": ("kimi_k2", "<|tool_call_begin|>functions.", ":0"),
}  # fmt: skip


@pytest.mark.parametrize(("name", "before", "after"), GROWING.values(), ids=GROWING.keys())
def test_twice_the_text_costs_twice_the_lines(name: str, before: str, after: str) -> None:
    def cost(num_chars: int) -> int:
        parser = make_answer_parser(tool_call_format(name), None, tools=TOOLS)
        return lines_run(parser, before + string(num_chars) + after)

    half, whole = cost(3000), cost(6000)
    assert whole < 2.05 * half


@pytest.mark.parametrize(("name", "before", "after"), GROWING.values(), ids=GROWING.keys())
def test_what_is_unread_is_no_longer_than_a_marker(name: str, before: str, after: str) -> None:
    # Each piece copies what is unread, so this bounds what a piece costs.
    parser = ToolCallParser(tool_call_format(name), KnownTools(TOOLS))
    for piece in before + string(2000) + after:
        parser.push(piece)
        assert parser.num_unread < LONGEST_MARKER


def test_a_megabyte_of_arguments_in_one_piece_runs_as_few_lines_as_a_short_one() -> None:
    def cost(text: str) -> int:
        parser = make_answer_parser(tool_call_format("hermes"), None, tools=TOOLS)
        whole = f'<tool_call>{{"name": "get_weather", "arguments": {{"city": "{text}"}}}}</tool_call>'
        return lines_run(parser, [whole])

    assert cost("ä" * 2**20) == cost("ä")


def test_many_calls_in_one_piece_cost_what_each_costs() -> None:
    one = '<tool_call>{"name": "get_weather", "arguments": {"city": "x"}}</tool_call>\n'

    def cost(num_calls: int) -> int:
        parser = make_answer_parser(tool_call_format("hermes"), None, tools=TOOLS)
        return lines_run(parser, [one * num_calls])

    assert cost(200) < 2.05 * cost(100)


def test_a_megabyte_of_nested_arguments_survives() -> None:
    deep = '{"a":[' * 100_000
    parser = make_answer_parser(tool_call_format("hermes"), None, tools=TOOLS)
    parts = parts_of(parser, [f'<tool_call>{{"name": "get_weather", "arguments": {deep}'])
    assert parts[-1] == CallArguments(0, deep)
    assert parser.is_inside_call


def test_reasoning_is_linear_too() -> None:
    def cost(num_chars: int) -> int:
        parser = make_answer_parser(None, reasoning_format("qwen3"), starts_in_reasoning=True)
        return lines_run(parser, "</thin\n" * (num_chars // 7))

    assert cost(6000) < 2.05 * cost(3000)
