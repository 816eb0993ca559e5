"""What a chat template tells about a model's formats; and that a parser reads what its template writes."""

import json
from typing import Any

import pytest

from srt.errors import StartupError
from srt.parsers.answer import CallArguments, CallBegin, Content, Reasoning
from srt.parsers.detect import REASONING_SIGNS, TOOL_CALL_SIGNS, check_parser_names, choose_parsers
from srt.parsers.registry import make_answer_parser, reasoning_format, tool_call_format
from srt.tokenizer.chat_template import ChatTemplate
from tests.srt.parsers.answers import TOOLS, parts_of
from tests.srt.parsers.templates import TEMPLATES

each_template = pytest.mark.parametrize("name", TEMPLATES)


@each_template
def test_the_template_tells_the_formats(name: str) -> None:
    template = TEMPLATES[name]
    choices = choose_parsers("auto", "auto", template.source)
    assert (choices.tool_calls.name, choices.reasoning.name) == (template.tool_calls, template.reasoning)


def test_there_is_a_format_of_every_name_that_is_detected() -> None:
    for sign in TOOL_CALL_SIGNS:
        assert tool_call_format(sign.name).name == sign.name
    for sign in REASONING_SIGNS:
        assert reasoning_format(sign.name).name == sign.name


def call_of(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": f"functions.{name}:0",
        "type": "function",
        "function": {"name": name, "arguments": json.dumps(arguments, ensure_ascii=False)},
    }


CALLS = [
    call_of("get_weather", {"city": 'Zü"rich </p>', "days": 3, "exact": True, "range": {"a": [1, None]}}),
    call_of("no_arguments", {}),
]


@pytest.mark.parametrize("name", [name for name in TEMPLATES if TEMPLATES[name].tool_calls])
@pytest.mark.parametrize("said", ["", "I will look."])
def test_a_parser_reads_the_calls_that_its_template_writes(name: str, said: str) -> None:
    template = TEMPLATES[name]
    assert template.tool_calls is not None
    # Llama's templates write one call a turn, and no text beside it.
    calls = CALLS[:1] if template.tool_calls == "llama3" else CALLS
    said = "" if template.tool_calls == "llama3" else said
    question = {"role": "user", "content": "How is it?"}
    answer = {"role": "assistant", "content": said, "tool_calls": calls}
    chat_template = ChatTemplate(template.source)
    text = chat_template.render([question, answer], tools=TOOLS, add_generation_prompt=False)
    turn = text.rpartition("<turn>")[2].removesuffix("</turn>").removeprefix("</think>")
    parser = make_answer_parser(tool_call_format(template.tool_calls), None, tools=TOOLS)
    parts = parts_of(parser, turn)
    assert [part.name for part in parts if isinstance(part, CallBegin)] == [
        call["function"]["name"] for call in calls
    ]
    assert [json.loads(part.text) for part in parts if isinstance(part, CallArguments)] == [
        json.loads(call["function"]["arguments"]) for call in calls
    ]
    assert "".join(part.text for part in parts if isinstance(part, Content)) == said


@pytest.mark.parametrize("name", [name for name in TEMPLATES if TEMPLATES[name].reasoning])
def test_the_prompt_of_a_template_tells_whether_the_answer_starts_inside(name: str) -> None:
    template = TEMPLATES[name]
    assert template.reasoning is not None
    chat_template = ChatTemplate(template.source)
    known = reasoning_format(template.reasoning)
    question = [{"role": "user", "content": f"What is {known.begin}?"}]
    starts = {
        switch: known.starts_inside(chat_template.render(question, template_kwargs={"thinking": switch}))
        for switch in (True, False)
    }
    assert starts == {True: name.startswith("deepseek"), False: name == "deepseek r1"}
    off = chat_template.render(question, template_kwargs={"enable_thinking": False, "thinking": False})
    assert known.is_switched_off(off) == (name in ("qwen3", "deepseek v3.1"))


@pytest.mark.parametrize("name", ["qwen3", "magistral", "glm"])
def test_a_parser_reads_the_reasoning_that_its_template_writes(name: str) -> None:
    template = TEMPLATES[name]
    assert template.reasoning is not None
    answer = {"role": "assistant", "content": "Yes.", "reasoning_content": "Hm.\n\nSo."}
    text = ChatTemplate(template.source).render([answer], add_generation_prompt=False)
    turn = text.rpartition("<turn>")[2].removesuffix("</turn>")
    parser = make_answer_parser(None, reasoning_format(template.reasoning))
    assert parts_of(parser, turn) == [Reasoning("Hm.\n\nSo."), Content("Yes.")]


def test_a_flag_wins_over_the_template_and_none_means_none() -> None:
    choices = choose_parsers("llama3", "none", TEMPLATES["qwen3"].source)
    assert (choices.tool_calls.name, choices.reasoning.name) == ("llama3", None)
    assert choices.facts()["tool_call_parser_reason"] == "as the flag says"


def test_without_a_template_nothing_is_found() -> None:
    facts = choose_parsers("auto", "auto", None).facts()
    assert (facts["tool_call_parser"], facts["reasoning_parser"]) == (None, None)
    assert facts["tool_call_parser_reason"] == "there is no chat template"


def test_an_unknown_name_is_refused_with_the_names_there_are() -> None:
    with pytest.raises(StartupError, match=r"no tool-call parser called qwen3, only .*hermes, .*qwen3_coder"):
        check_parser_names("qwen3", "auto")
    with pytest.raises(StartupError, match=r"no reasoning parser called hermes, only .*deepseek-r1, .*qwen3"):
        check_parser_names("none", "hermes")
    check_parser_names("auto", "none")
    check_parser_names("qwen25", "qwen3-thinking")
