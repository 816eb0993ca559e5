"""Rows of items in chat's words."""

from typing import Any

import msgspec
import pytest

from srt.engine_client import ChatPrompt
from srt.entrypoints.openai.chat.prompt import ChatPlan, plan_chat
from srt.entrypoints.openai.responses.prompt import to_chat_request
from srt.entrypoints.openai.responses.protocol import ResponsesRequest
from srt.errors import InvalidRequest
from tests.fakes.engine_client import MODEL_INFO

MODEL = msgspec.structs.replace(MODEL_INFO, tool_call_parser="hermes", reasoning_parser="qwen3")
TOOL = {
    "type": "function",
    "name": "look",
    "parameters": {"type": "object", "properties": {}},
    "strict": True,
}


def plan(**body: Any) -> ChatPlan:
    request = msgspec.json.decode(msgspec.json.encode({"input": "hi", **body}), type=ResponsesRequest)
    return plan_chat(to_chat_request(request), MODEL, rid="made")


def prompt_of(**body: Any) -> ChatPrompt:
    (prompt,) = plan(**body).request.prompts
    assert isinstance(prompt, ChatPrompt)
    return prompt


def allowed(mode: str) -> dict[str, Any]:
    """A `tool_choice` of one of two."""
    return {"type": "allowed_tools", "mode": mode, "tools": [{"type": "function", "name": "hear"}]}


def text(string: str) -> dict[str, Any]:
    return {"type": "text", "text": string}


def test_a_text_is_what_the_user_says_and_instructions_come_first() -> None:
    assert prompt_of(instructions="Be brief.").messages == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "hi"},
    ]


def test_what_the_assistant_did_in_one_turn_is_one_message() -> None:
    written = prompt_of(
        input=[
            {"role": "developer", "content": [{"type": "input_text", "text": "d"}]},
            {"type": "message", "role": "user", "content": "hi"},
            {
                "type": "reasoning",
                "id": "r",
                "summary": [],
                "content": [{"type": "reasoning_text", "text": "hm"}],
            },
            {
                "type": "message",
                "role": "assistant",
                "id": "m",
                "status": "completed",
                "content": [{"type": "output_text", "text": "I look.", "annotations": []}],
            },
            {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"},
            {"type": "function_call", "call_id": "c2", "name": "look", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c1", "output": "seen"},
            {
                "type": "function_call_output",
                "call_id": "c2",
                "output": [{"type": "input_text", "text": "x"}],
            },
        ]
    ).messages
    function = {"name": "look", "arguments": "{}"}
    calls = [{"id": call_id, "type": "function", "function": function} for call_id in ("c1", "c2")]
    assert written == [
        {"role": "system", "content": [text("d")]},
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": [text("I look.")], "reasoning_content": "hm", "tool_calls": calls},
        {"role": "tool", "content": "seen", "tool_call_id": "c1", "name": "look"},
        {"role": "tool", "content": [text("x")], "tool_call_id": "c2", "name": "look"},
    ]


def test_a_summary_stands_for_thoughts_that_are_not_there() -> None:
    summary = [{"type": "summary_text", "text": "hm"}]
    written = prompt_of(input=[{"type": "reasoning", "summary": summary}]).messages
    assert written[0]["reasoning_content"] == "hm"


def test_how_to_sample() -> None:
    (sampling,) = plan(max_output_tokens=7, temperature=0.5, top_p=0.8, stop="END", seed=3).request.sampling
    assert (sampling.max_new_tokens, sampling.temperature, sampling.top_p) == (7, 0.5, 0.8)
    assert (sampling.stop, sampling.seed) == (("END",), 3)


@pytest.mark.parametrize(
    ("choice", "is_grammar_needed", "num_shown"),
    [
        ("auto", True, 2),
        ("required", True, 2),
        ({"type": "function", "name": "hear"}, True, 1),
        ("none", False, 0),
        (allowed("auto"), True, 1),
        (allowed("required"), True, 1),
    ],
)
def test_tool_choice(choice: Any, is_grammar_needed: bool, num_shown: int) -> None:
    """A strict tool is watched in any case."""
    planned = plan(tools=[TOOL, {**TOOL, "name": "hear"}], tool_choice=choice, parallel_tool_calls=False)
    (prompt,) = planned.request.prompts
    assert isinstance(prompt, ChatPrompt)
    assert bool(planned.request.grammars) == is_grammar_needed
    assert len(prompt.tools or ()) == num_shown
    assert not planned.answers.is_parallel


def test_the_form_of_the_answer() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    form = {"type": "json_schema", "name": "n", "schema": schema, "strict": True}
    (grammar,) = plan(text={"format": form, "verbosity": "medium"}).request.grammars
    assert grammar is not None
    assert msgspec.json.decode(grammar.text) == schema
    assert plan(text={"format": {"type": "json_object"}}).request.grammars
    assert not plan(text={"format": {"type": "text"}}).request.grammars


def test_effort_goes_to_the_template() -> None:
    prompt = prompt_of(reasoning={"effort": "low", "summary": "auto"})
    assert prompt.template_kwargs["reasoning_effort"] == "low"


def test_what_has_no_effect_here_is_taken() -> None:
    plan(
        store=True,
        user="u",
        metadata={"a": "b"},
        prompt_cache_key="k",
        service_tier="auto",
        truncation="disabled",
        background=False,
        include=["reasoning.encrypted_content"],
        stream_options={"include_obfuscation": False},
    )


def user(*parts: Any) -> list[Any]:
    return [{"role": "user", "content": list(parts)}]


@pytest.mark.parametrize(
    ("change", "param"),
    [
        ({"previous_response_id": "resp_1"}, "previous_response_id"),
        ({"background": True}, "background"),
        ({"conversation": "c"}, "conversation"),
        ({"prompt": {"id": "p"}}, "prompt"),
        ({"truncation": "auto"}, "truncation"),
        ({"include": ["file_search_call.results"]}, "include"),
        ({"reasoning": {"summary": "detailed"}}, "reasoning.summary"),
        ({"text": {"verbosity": "low"}}, "text.verbosity"),
        ({"text": {"format": {"type": "xml"}}}, "text.format.type"),
        ({"text": {"format": {"type": "json_schema"}}}, "text.format.schema"),
        ({"tools": [{"type": "web_search"}]}, "tools[0].type"),
        ({"tools": [{"type": "function"}]}, "tools[0].name"),
        ({"tools": [TOOL], "tool_choice": {"type": "mcp"}}, "tool_choice.type"),
        ({"tools": [TOOL], "tool_choice": {"type": "function"}}, "tool_choice.name"),
        ({"tools": [TOOL], "tool_choice": {"type": "allowed_tools", "mode": "auto"}}, "tool_choice.tools"),
        ({"tools": [TOOL], "tool_choice": {**allowed("auto"), "mode": None}}, "tool_choice.mode"),
        ({"input": []}, "input"),
        ({"input": [{"role": "user", "content": "x"}] * 8192, "instructions": "y"}, "input"),
        ({"input": user({"type": "input_image", "image_url": "http://x"})}, "input[0].content[0]"),
        ({"input": user({"type": "input_text"})}, "input[0].content[0].text"),
        ({"input": [{"role": "robot", "content": "x"}]}, "input[0].role"),
        ({"input": [{"content": "x"}]}, "input[0].role"),
        ({"input": [{"role": "user"}]}, "input[0].content"),
        ({"input": [{"type": "item_reference", "id": "x"}]}, "input[0].type"),
        ({"input": [{"type": "function_call", "name": "n", "arguments": "{}"}]}, "input[0].call_id"),
        ({"input": [{"type": "function_call_output", "call_id": "c"}]}, "input[0].output"),
    ],
)
def test_what_is_not_served_is_refused_by_name(change: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        plan(**change)
    assert refusal.value.param == param
    assert param.rpartition(".")[2] in refusal.value.message
