from typing import Any

import pytest

from srt.errors import InvalidRequest
from srt.tokenizer.chat_content import normalise_message
from srt.tokenizer.chat_template import ChatTemplate

PARTS = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("{% for m in messages %}{{ m.content }}{% endfor %}", "string"),
        ("{% for m in messages %}{{ m['content'] | trim }}{% endfor %}", "string"),
        ("{% for m in messages %}{% for p in m.content %}{% endfor %}{% endfor %}", "openai"),
        ("{% for m in messages %}{% for p in m['content'] | list %}{% endfor %}{% endfor %}", "openai"),
        ("{% set content = messages[0].content %}{% for p in content %}{% endfor %}", "openai"),
        ("{% macro show(content) %}{% for p in content %}{% endfor %}{% endmacro %}", "openai"),
        ("{% for line in messages[0].content.split('x') %}{% endfor %}", "string"),
    ],
)
def test_a_template_that_loops_over_content_wants_parts(source: str, expected: str) -> None:
    assert ChatTemplate(source).content_format == expected


def test_parts_are_joined_for_a_template_that_expects_text() -> None:
    assert normalise_message({"role": "user", "content": PARTS}, "string")["content"] == "a\nb"


def test_parts_stay_parts_for_a_template_that_walks_them() -> None:
    assert normalise_message({"role": "user", "content": PARTS}, "openai")["content"] == PARTS


def test_text_stays_text_in_either_format() -> None:
    for wanted in ("string", "openai"):
        assert normalise_message({"role": "user", "content": "a"}, wanted)["content"] == "a"  # type: ignore[arg-type]


@pytest.mark.parametrize("part", [{"type": "image_url"}, {"type": "text"}, {"type": "text", "text": 1}, 5])
def test_parts_that_are_not_text_are_refused(part: Any) -> None:
    with pytest.raises(InvalidRequest, match="only text"):
        normalise_message({"role": "user", "content": [part]}, "string")


def test_null_fields_are_left_out_but_content_is_there() -> None:
    message = normalise_message({"role": "assistant", "content": None, "name": None}, "string")
    assert message == {"role": "assistant", "content": ""}


@pytest.mark.parametrize("calls", [[], None])
def test_no_tool_calls_are_left_out(calls: Any) -> None:
    assert "tool_calls" not in normalise_message(
        {"role": "assistant", "content": "hi", "tool_calls": calls}, "string"
    )


def arguments_of(arguments: Any) -> Any:
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": arguments}}
    message = normalise_message({"role": "assistant", "tool_calls": [call]}, "string")
    return message["tool_calls"][0]["function"]["arguments"]


@pytest.mark.parametrize(
    ("arguments", "seen"),
    [('{"x": 1}', {"x": 1}), ("", {}), ({"x": 1}, {"x": 1}), ("[1]", [1])],
)
def test_tool_arguments_become_objects(arguments: Any, seen: Any) -> None:
    assert arguments_of(arguments) == seen


@pytest.mark.parametrize("arguments", ["not json", "{", "[" * 100_000])
def test_tool_arguments_that_are_no_json_are_refused(arguments: str) -> None:
    with pytest.raises(InvalidRequest, match="arguments of tool call f are not JSON"):
        arguments_of(arguments)


def test_a_template_may_go_through_tool_arguments_as_a_mapping() -> None:
    source = (
        "{% for k, v in messages[0].tool_calls[0].function.arguments | items %}{{ k }}={{ v }}{% endfor %}"
    )
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"x": 1}'}}
    assert (
        ChatTemplate(source).render([{"role": "assistant", "content": None, "tool_calls": [call]}]) == "x=1"
    )


def test_a_strange_tool_call_is_the_templates_business() -> None:
    assert normalise_message({"role": "assistant", "tool_calls": ["x"]}, "string")["tool_calls"] == ["x"]


HISTORY = [
    {"role": "user", "content": "How is it?"},
    {"role": "assistant", "content": None, "reasoning_content": "Hm.", "tool_calls": [
        {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"x": 1}'}},
        {"id": "c2", "type": "function", "function": {"name": "g", "arguments": "{x}"}},
    ]},
    {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "Rain."}]},
]  # fmt: skip


def test_arguments_that_are_no_json_are_refused_by_the_place_where_they_stand() -> None:
    with pytest.raises(InvalidRequest) as refused:
        ChatTemplate("{{ messages }}").render(HISTORY)
    assert refused.value.param == "messages[1].tool_calls[1].function.arguments"
    assert refused.value.message.startswith("messages[1].tool_calls[1].function.arguments: the arguments of")


def test_a_part_that_is_no_text_is_refused_by_the_place_where_it_stands() -> None:
    messages = [{"role": "user", "content": ["a", {"type": "image_url"}]}]
    with pytest.raises(InvalidRequest) as refused:
        ChatTemplate("{{ messages }}").render(messages)
    assert refused.value.param == "messages[0].content[1]"


def test_a_template_sees_tools_reasoning_and_results() -> None:
    source = (
        "{{ tools[0].function.name }}|{{ messages[1].reasoning_content }}|"
        "{% for call in messages[1].tool_calls %}{{ call.id }} {{ call.function.arguments.x }}{% endfor %}|"
        "{{ messages[2].tool_call_id }} {{ messages[2].content }}"
    )
    messages = [HISTORY[0], {**HISTORY[1], "tool_calls": HISTORY[1]["tool_calls"][:1]}, HISTORY[2]]  # type: ignore[index]
    tools = [{"type": "function", "function": {"name": "f"}}]
    assert ChatTemplate(source).render(messages, tools=tools) == "f|Hm.|c1 1|c1 Rain."
