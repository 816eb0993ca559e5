"""Answers as models write them, in every format, and what they say."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from srt.parsers.answer import AnswerParser, AnswerPart, CallArguments, CallBegin, Content, Reasoning

TOOLS: Sequence[dict[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "Weather of a city.",
            "parameters": {
                "type": "object",
                "properties": {
                    "city": {"type": "string"},
                    "days": {"type": "integer"},
                    "exact": {"type": "boolean"},
                    "range": {"type": "object"},
                    "unit": {"type": ["string", "null"]},
                    "free": {},
                },
            },
        },
    },
    {"type": "function", "function": {"name": "no_arguments"}},
    {"type": "function", "function": {"name": "Plan.search-2", "parameters": {"type": "object"}}},
]


def parts_of(parser: AnswerParser, pieces: Iterable[str]) -> list[AnswerPart]:
    """What a parser says about a text in pieces."""
    parts = [part for piece in pieces for part in parser.push(piece)]
    return joined([*parts, *parser.finish()])


def joined(parts: Iterable[AnswerPart]) -> list[AnswerPart]:
    """Neighbours of one kind put together: how text was cut shows no more."""
    whole: list[AnswerPart] = []
    for part in parts:
        assert isinstance(part, CallBegin) or part.text, "no part is empty"
        match (whole[-1] if whole else None, part):
            case (Content(before), Content(text)):
                whole[-1] = Content(before + text)
            case (Reasoning(before), Reasoning(text)):
                whole[-1] = Reasoning(before + text)
            case (CallArguments(index, before), CallArguments(same, text)) if index == same:
                whole[-1] = CallArguments(index, before + text)
            case _:
                whole.append(part)
    return whole


def call(index: int, name: str, arguments: str, call_id: str | None = None) -> list[AnswerPart]:
    """A whole call."""
    return [CallBegin(index, name, call_id), CallArguments(index, arguments)]


@dataclass(frozen=True)
class Answer:
    """A text in one format, and its parts."""

    parser: str
    text: str
    parts: Sequence[AnswerPart]


CITY = '{"city": "Zürich", "days": 3}'
# What must pass as it is: blanks, spellings of numbers, doubled keys, escapes, brackets and markers in strings.
ODD = (
    '{ "a":1.50e+2,\n "a" : -0 , '
    '"s":"}]\\"{[\\\\ \\u00e9 </tool_call> ``` [ARGS] \\/", "l":[ true,null,[] ,{}],"é":"𝄞" }'
)

ANSWERS = [
    Answer(
        "hermes",
        f'I will look.\n<tool_call>\n{{"name": "get_weather", "arguments": {CITY}}}\n</tool_call>\n<tool_call>\n'
        '{"arguments": {}, "name": "no_arguments"}\n</tool_call>\nDone.',
        [
            Content("I will look."),
            *call(0, "get_weather", CITY),
            *call(1, "no_arguments", "{}"),
            Content("Done."),
        ],
    ),
    Answer(
        "hermes",
        f'<tool_call>{{"id": [1, {{}}], "name":"get_weather","arguments":{ODD},"more":"x"}}</tool_call>',
        call(0, "get_weather", ODD),
    ),
    Answer(
        "hermes",
        f'<tool_call>\n{{"arguments": {ODD}, "name": "get_weather"}}\n</tool_call>',
        call(0, "get_weather", ODD),
    ),
    Answer("hermes", '<tool_call>{"name": "no_arguments"}</tool_call>', call(0, "no_arguments", "{}")),
    Answer(
        "hermes",
        '<tool_call>{"name": "no_arguments", "arguments": null}</tool_call>',
        call(0, "no_arguments", "{}"),
    ),
    Answer(
        "hermes",
        '<tool_call>{"name": "get_weather", "arguments": "{\\"city\\": \\"X\\"}"}</tool_call>',
        call(0, "get_weather", '{"city": "X"}'),
    ),
    Answer(
        "hermes",
        '<tool_call>{"name": "get_weather", "arguments": {"city": "a\nb\tc"}}</tool_call>',
        call(0, "get_weather", '{"city": "a\\nb\\tc"}'),
    ),
    Answer(
        "llama3",
        f'<|python_tag|>{{"name": "get_weather", "parameters": {CITY}}}; '
        '{"name": "no_arguments", "parameters": {}}',
        [*call(0, "get_weather", CITY), *call(1, "no_arguments", "{}")],
    ),
    Answer(
        "llama3",
        f'\n{{"type": "function", "name": "get_weather", "parameters": {ODD}}}',
        call(0, "get_weather", ODD),
    ),
    Answer(
        "llama3",
        f'Let me see. <|python_tag|>{{"name": "get_weather", "parameters": {CITY}}} So.',
        [Content("Let me see."), *call(0, "get_weather", CITY), Content("So.")],
    ),
    Answer(
        "mistral",
        f'Yes.[TOOL_CALLS] [{{"name": "get_weather", "arguments": {ODD}}}, '
        f'{{"name": "get_weather", "arguments": {CITY}}}]',
        [Content("Yes."), *call(0, "get_weather", ODD), *call(1, "get_weather", CITY)],
    ),
    Answer(
        "mistral",
        f"Yes.[TOOL_CALLS]get_weather[ARGS]{ODD}[TOOL_CALLS]Plan.search-2[CALL_ID]a1B2c3D4e[ARGS]{CITY}",
        [
            Content("Yes."),
            *call(0, "get_weather", ODD),
            *call(1, "Plan.search-2", CITY, "a1B2c3D4e"),
        ],
    ),
    Answer("mistral", f"[TOOL_CALLS]get_weather{CITY}", call(0, "get_weather", CITY)),
    Answer(
        "deepseekv3",
        "Hm.\n\n<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n```json\n"
        f"{ODD}\n```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>no_arguments\n```json\n"
        "{}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
        [Content("Hm."), *call(0, "get_weather", ODD), *call(1, "no_arguments", "{}")],
    ),
    Answer(
        "deepseekv31",
        f"<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>{ODD}<｜tool▁call▁end｜>"
        "<｜tool▁call▁begin｜>no_arguments<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
        [*call(0, "get_weather", ODD), *call(1, "no_arguments", "{}")],
    ),
    Answer(
        "kimi_k2",
        "Hm.<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:4<|tool_call_argument_begin|>"
        f"{ODD}<|tool_call_end|><|tool_call_begin|>functions.no_arguments:5<|tool_call_argument_begin|>"
        "{}<|tool_call_end|><|tool_calls_section_end|>",
        [
            Content("Hm."),
            *call(0, "get_weather", ODD, "functions.get_weather:4"),
            *call(1, "no_arguments", "{}", "functions.no_arguments:5"),
        ],
    ),
    Answer(
        "pythonic",
        "[get_weather(city=\"Zü'ri)ch\", days=-3, exact=True, range={'a': [1.5, (2,), None]}), no_arguments()]",
        [
            *call(
                0,
                "get_weather",
                """{"city": "Zü'ri)ch", "days": -3, "exact": true, "range": {"a": [1.5, [2], null]}}""",
            ),
            *call(1, "no_arguments", "{}"),
        ],
    ),
    Answer(
        "pythonic",
        'Now: <|python_start|>[Plan.search-2(q=\'a"\\\'b\\d\', r="""x"]y""", e="")]<|python_end|> Done.',
        [
            Content("Now:"),
            *call(0, "Plan.search-2", '{"q": "a\\"\'b\\\\d", "r": "x\\"]y", "e": ""}'),
            Content("Done."),
        ],
    ),
    Answer(
        "qwen3_coder",
        'I look.\n<tool_call>\n<function=get_weather>\n<parameter=city>\nZü"rich\n\n</parameter>\n<parameter=days>\n 3'
        "\n</parameter>\n<parameter=exact>\nTrue\n</parameter>\n<parameter=unit>\nnull\n</parameter>\n<parameter=range>"
        '\n{"a": [1.50]}\n</parameter>\n<parameter=other>\n5\n</parameter>\n</function>\n</tool_call>\n<tool_call>\n'
        "<function=no_arguments>\n</function>\n</tool_call>",
        [
            Content("I look."),
            *call(
                0,
                "get_weather",
                '{"city": "Zü\\"rich\\n", "days": 3, "exact": true, "unit": null, "range": {"a": [1.50]}, '
                '"other": "5"}',
            ),
            *call(1, "no_arguments", "{}"),
        ],
    ),
    Answer(
        "qwen3_coder",
        "<function=get_weather><parameter=city>a<b</parameter><parameter=days>soon</function>",
        call(0, "get_weather", '{"city": "a<b", "days": "soon"}'),
    ),
    Answer(
        "glm45",
        "Hm.\n<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>12</arg_value>\n<arg_key>days</arg_key>\n"
        "<arg_value>12</arg_value>\n<arg_key>free</arg_key>\n<arg_value>[1, 2]</arg_value>\n</tool_call>"
        "<tool_call>no_arguments</tool_call>",
        [
            Content("Hm."),
            *call(0, "get_weather", '{"city": "12", "days": 12, "free": [1, 2]}'),
            *call(1, "no_arguments", "{}"),
        ],
    ),
    Answer(
        "deepseekv32",
        'Hm.\n<｜DSML｜function_calls>\n<｜DSML｜invoke name="get_weather">\n<｜DSML｜parameter name="city" '
        'string="true">5 "\n</｜DSML｜parameter>\n<｜DSML｜parameter name="days" string="false">5</｜DSML｜parameter>\n'
        "</｜DSML｜invoke>\n"
        '<｜DSML｜invoke name="no_arguments">\n</｜DSML｜invoke>\n</｜DSML｜function_calls>',
        [
            Content("Hm."),
            *call(0, "get_weather", '{"city": "5 \\"\\n", "days": 5}'),
            *call(1, "no_arguments", "{}"),
        ],
    ),
]
