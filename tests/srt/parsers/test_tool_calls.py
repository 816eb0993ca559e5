"""Every format: what its texts say, however they are cut, and wherever they end."""

import json

import pytest

from srt.parsers.answer import AnswerParser, CallArguments, CallBegin, Content
from srt.parsers.registry import make_answer_parser, tool_call_format
from srt.parsers.tool_calls.format import ToolCallFormat
from srt.parsers.tool_calls.formats import JSON_ARRAY, TOOL_CALL_FORMATS
from tests.srt.parsers.answers import ANSWERS, CITY, ODD, TOOLS, Answer, call, parts_of

each_answer = pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: answer.parser)


def parser_of(name: str, *, knows_tools: bool = True) -> AnswerParser:
    return make_answer_parser(tool_call_format(name), None, tools=TOOLS if knows_tools else None)


def test_every_format_has_an_answer() -> None:
    names = {tool_call_format(answer.parser).name for answer in ANSWERS}
    # Read by the same generator as its neighbour.
    assert {known.name for known in TOOL_CALL_FORMATS.values()} - names == {"mistral-compact"}


@each_answer
def test_a_whole_answer(answer: Answer) -> None:
    parser = parser_of(answer.parser)
    assert parts_of(parser, [answer.text]) == list(answer.parts)
    assert not parser.is_inside_call
    assert parser.num_calls == sum(isinstance(part, CallBegin) for part in answer.parts)
    for part in answer.parts:
        if isinstance(part, CallArguments):
            assert isinstance(json.loads(part.text), dict)


@each_answer
def test_without_known_tools_every_name_is_taken(answer: Answer) -> None:
    parts = parts_of(parser_of(answer.parser, knows_tools=False), [answer.text])
    names = [part.name for part in answer.parts if isinstance(part, CallBegin)]
    assert [part.name for part in parts if isinstance(part, CallBegin)] == names


@each_answer
def test_where_the_text_is_cut_changes_nothing(answer: Answer) -> None:
    text = answer.text
    assert parts_of(parser_of(answer.parser), text) == list(answer.parts)
    for place in range(len(text)):
        assert parts_of(parser_of(answer.parser), [text[:place], text[place:]]) == list(answer.parts)


@each_answer
def test_an_answer_that_ends_anywhere_loses_nothing(answer: Answer) -> None:
    names = [part.name for part in answer.parts if isinstance(part, CallBegin)]
    arguments = [part.text for part in answer.parts if isinstance(part, CallArguments)]
    for place in range(len(answer.text)):
        text = answer.text[:place]
        parser = parser_of(answer.parser)
        parts = parts_of(parser, [text])
        begun = [part.name for part in parts if isinstance(part, CallBegin)]
        told = [part.text for part in parts if isinstance(part, CallArguments)]
        assert begun == names[: len(begun)]
        assert told[:-1] == arguments[: max(len(told) - 1, 0)]
        last = parts[-1] if parts else None
        if not begun:
            assert parts == ([Content(text)] if text else [])
        elif isinstance(last, Content):
            assert text.endswith(last.text)
            assert not parser.is_inside_call
        elif parser.is_inside_call:
            # Only where a value's type is known at its end may the beginning be told otherwise.
            assert last is not None
            assert answer.parser in ("qwen3_coder", "glm45", "deepseekv32") or arguments[
                len(begun) - 1
            ].startswith(told[-1])
        else:
            assert told[-1] == arguments[len(begun) - 1]


@each_answer
def test_content_is_left_alone_if_no_such_tool_exists(answer: Answer) -> None:
    tools = [{"type": "function", "function": {"name": "another"}}]
    for pieces in ([answer.text], answer.text):
        parser = make_answer_parser(tool_call_format(answer.parser), None, tools=tools)
        assert parts_of(parser, pieces) == [Content(answer.text)]
        assert parser.num_calls == 0


LOOK_ALIKES = {
    "hermes": [
        "<",
        "a < b <tool",
        "<tool_call>",
        "<tool_call> is the marker </tool_call>",
        "  <tool_call>\n{}\n</tool_call>\n",
        '<tool_call>{"name": "get_weather", }</tool_call>',
        '<tool_call>{"name": 5}</tool_call>',
        '<tool_call>{"name": "get_weather" "arguments": {}}</tool_call>',
        '<tool_call>["get_weather"]</tool_call>',
        '<tool_call>{"arguments": {"a": 01}, "name": "get_weather"}</tool_call>',
        " \n ",
        "\n\n<tool_call>\n\n",
        '<tool_call>{"name": "get_weather", "arguments": [1]}</tool_call>',
        '<tool_call>{name: "get_weather"}',
        '<tool_call>{"name": "get_weather", "arguments": "{\\"a\\": "}</tool_call>',
        '<tool_call>{"name": "get_weather", "arguments": "{\\"a\\": \\"\\\\ud800\\"} \\ud800"}</tool_call>',
    ],
    "llama3": [
        '{"answer": 42}',
        '{"name": "Bob", "age": 3}',
        '{"name": "get_weather", "extra": 1, "parameters": {}}',
        "{",
        "[1]",
        "<|python_tag|>import os",
        '<|python_tag|>brave_search.call(query="x")',
        'I say {"name": "get_weather"}',
    ],
    "mistral": [
        "[1, 2]",
        "[TOOL",
        "[TOOL_CALLS]",
        "[TOOL_CALLS] []",
        "[TOOL_CALLS] [1]",
        "[TOOL_CALLS]other[ARGS]{}",
        "[TOOL_CALLS]get_weather[ARGS]5",
    ],
    "pythonic": [
        "[link](http://x)",
        "[get_weather](http://x)",
        "[1, 2]",
        "[",
        "[get_weather(1)]",
        "[get_weather(city=x)]",
        "[get_weather(**{})]",
        "[get_weather(city=1e999)]",
        "[get_weather(city={1})]",
        "[get_weather(city={1: 2})]",
        "[get_weather(city=b'')]",
        "[get_weather(city='",
        "[get_weather(city=[)]",
        "[get_weather(a=1, a=2)]",
        "[get_weather(a=1#'\n)+(b#'\n)]",
        "[get_weather(a=" + "(" * 300 + ")" * 300 + ")]",
        "[get_weather(a=" + "-" * 9999 + "1)]",
        "[get_weather(a=" + "9" * 5000 + ")]",
        "get_weather(city='x')",
        "<|python_start|>get_weather<|python_end|>",
    ],
    "qwen3_coder": [
        "<function",
        "<function=f>",
        "<tool_call>\n{}",
        "<function=get_weather",
        "<function=get_weather><parameter=",
        "<tool_call>\n<function=get_weather>\nno\n</function>\n</tool_call>",
    ],
    "glm45": ["<tool_call>", "<tool_call>get_weather", "<tool_call>get_weather\n<arg_key>a</arg_key>no"],
    "deepseekv3": [
        "<｜tool▁calls▁begin｜>",
        "<｜tool▁calls▁begin｜>\nno",
        "<｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\nno",
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>\n```json\n{}```",
    ],
    "deepseekv32": [
        "<｜DSML｜function_calls>",
        '<｜DSML｜invoke name="get_weather">',
        '<｜DSML｜invoke name="get_weather>',
    ],
    "kimi_k2": [
        "<|tool_calls_section_begin|>",
        "<|tool_call_begin|>functions.:0",
        "<|tool_call_begin|>functions.get_weather:0 no",
    ],
}


@pytest.mark.parametrize(
    ("name", "text"), [(name, text) for name, texts in LOOK_ALIKES.items() for text in texts]
)
def test_what_only_looks_like_a_call_is_content(name: str, text: str) -> None:
    for whole in (text, text + " more\n", "x " + text):
        if (name, whole[:2]) == ("llama3", "x ") or (name == "pythonic" and whole[:2] == "x "):
            continue
        for pieces in ([whole], whole):
            parser = parser_of(name)
            assert parts_of(parser, pieces) == [Content(whole)]
            assert (parser.num_calls, parser.is_inside_call) == (0, False)


def test_a_call_that_breaks_stays_incomplete_and_the_rest_is_content() -> None:
    parser = parser_of("hermes")
    text = (
        '<tool_call>{"name": "get_weather", "arguments": {"city": "a" "b"}}</tool_call>\n'
        f'<tool_call>{{"name": "get_weather", "arguments": {CITY}}}</tool_call>'
    )
    parts = parts_of(parser, text)
    assert parts == [
        *call(0, "get_weather", '{"city": "a" '),
        Content('"b"}}</tool_call>'),
        *call(1, "get_weather", CITY),
    ]
    assert parser.is_inside_call


def test_a_call_is_whole_with_its_arguments_whatever_follows() -> None:
    parser = parser_of("hermes")
    text = '<tool_call>{"name": "get_weather", "arguments": {"city": "a"}</tool_call>'
    assert parts_of(parser, text) == call(0, "get_weather", '{"city": "a"}')
    assert not parser.is_inside_call


def test_arguments_leave_as_they_come() -> None:
    parser = parser_of("hermes")
    parser.push('<tool_call>{"name": "get_weather", "arguments": {"city": "')
    assert parser.is_inside_call
    assert [parser.push(piece) for piece in ("Zü", "rich", "\\", 'n"')] == [
        [CallArguments(0, piece)] for piece in ("Zü", "rich", "\\", 'n"')
    ]


def test_strings_of_formats_without_json_leave_as_they_come() -> None:
    parser = parser_of("qwen3_coder")
    parser.push("<tool_call>\n<function=get_weather>\n<parameter=city>\n")
    assert parser.push('say "x') == [CallArguments(0, 'say \\"x')]
    assert parser.push("\n</par") == []
    assert parser.push("agraph>") == [CallArguments(0, "\\n</paragraph>")]


def test_arguments_before_the_name_wait_for_it() -> None:
    parser = parser_of("hermes")
    assert parser.push(f'<tool_call>{{"arguments": {ODD}, "name": "get_wea') == []
    assert parser.push('ther"}') == call(0, "get_weather", ODD)


def test_the_end_of_content_waits_only_for_what_may_be_a_marker() -> None:
    parser = parser_of("hermes")
    assert parser.push("a <b") == [Content("a <b")]
    assert parser.push(" <to") == []
    assert parser.push("p> \n") == [Content(" <top>")]
    assert parser.finish() == [Content(" \n")]


ARRAY = (
    f' [ {{"name": "get_weather", "parameters": {ODD}}},\n{{"name": "no_arguments", "parameters": {{}}}} ]\n'
)


def test_an_enforced_array_of_calls_streams_too() -> None:
    expected = [*call(0, "get_weather", ODD), *call(1, "no_arguments", "{}")]
    for place in range(len(ARRAY)):
        parser = make_answer_parser(JSON_ARRAY, None, tools=TOOLS)
        assert parts_of(parser, [ARRAY[:place], ARRAY[place:]]) == expected
    parser = make_answer_parser(JSON_ARRAY, None, tools=TOOLS)
    assert parts_of(parser, ARRAY) == expected


@pytest.mark.parametrize("text", ["[]", "[1]", "Sorry.", '{"name": "get_weather"}', '[{"name": "f"}]'])
def test_an_array_of_no_calls_is_content(text: str) -> None:
    assert parts_of(make_answer_parser(JSON_ARRAY, None, tools=TOOLS), text) == [Content(text)]


@pytest.mark.parametrize("call_format", TOOL_CALL_FORMATS.values(), ids=TOOL_CALL_FORMATS.keys())
def test_what_a_grammar_makes_of_a_format_is_read_by_it(call_format: ToolCallFormat) -> None:
    if call_format.structure is None:
        assert call_format.name in ("pythonic", "qwen3_coder", "glm45", "deepseekv32")
        return
    structure = call_format.structure("get_weather")
    assert structure.begin.startswith(structure.trigger)
    text = (structure.begin + ODD + structure.end) * 2
    parts = parts_of(make_answer_parser(call_format, None, tools=TOOLS), text)
    assert [part.text for part in parts if isinstance(part, CallArguments)] == [ODD, ODD]
    assert not any(isinstance(part, Content) for part in parts)
