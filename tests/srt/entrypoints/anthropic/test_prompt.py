"""Anthropic's conversations in chat's words."""

import inspect
from typing import Any

import msgspec
import pytest
from anthropic.types import (
    OutputConfigParam,
    TextBlockParam,
    ThinkingConfigEnabledParam,
    ToolParam,
    ToolResultBlockParam,
    ToolUseBlockParam,
    message_count_tokens_params,
    message_create_params,
)

from srt.engine_client import ChatPrompt
from srt.entrypoints.anthropic.prompt import to_chat_request
from srt.entrypoints.anthropic.protocol import (
    Block,
    CountTokensRequest,
    MessagesRequest,
    OutputConfig,
    Thinking,
    Tool,
)
from srt.entrypoints.openai.chat.prompt import ChatPlan, plan_chat
from srt.errors import InvalidRequest
from tests.fakes.engine_client import MODEL_INFO

MODEL = msgspec.structs.replace(MODEL_INFO, tool_call_parser="hermes", reasoning_parser="qwen3")
HELLO: dict[str, Any] = {"model": "m", "max_tokens": 20, "messages": [{"role": "user", "content": "hi"}]}
TOOL = {"name": "look", "description": "Look.", "input_schema": {"type": "object", "properties": {}}}


def plan(**body: Any) -> ChatPlan:
    request = msgspec.json.decode(msgspec.json.encode({**HELLO, **body}), type=MessagesRequest)
    return plan_chat(to_chat_request(request), MODEL, rid="made")


def messages(**body: Any) -> Any:
    (prompt,) = plan(**body).request.prompts
    assert isinstance(prompt, ChatPrompt)
    return prompt.messages


def text(string: str) -> dict[str, Any]:
    return {"type": "text", "text": string}


def test_the_system_prompt_comes_first() -> None:
    assert messages(system="Be brief.")[0] == {"role": "system", "content": "Be brief."}
    assert messages(system=[text("a"), text("b")])[0] == {"role": "system", "content": [text("a"), text("b")]}


def test_a_round_of_tool_use() -> None:
    use = {"type": "tool_use", "id": "t1", "name": "look", "input": {"at": "é"}}
    thought = {"type": "thinking", "thinking": "hm", "signature": "x"}
    result = {"type": "tool_result", "tool_use_id": "t1", "content": [text("seen")]}
    written = messages(
        messages=[
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": [thought, text("I look."), use]},
            {"role": "user", "content": [result, text("and now?")]},
        ]
    )
    call = {"id": "t1", "type": "function", "function": {"name": "look", "arguments": '{"at":"é"}'}}
    assert written[1:] == [
        {"role": "assistant", "content": [text("I look.")], "reasoning_content": "hm", "tool_calls": [call]},
        {"role": "tool", "content": [text("seen")], "tool_call_id": "t1", "name": "look"},
        {"role": "user", "content": [text("and now?")]},
    ]


def test_a_tool_that_failed_says_so() -> None:
    result = {"type": "tool_result", "tool_use_id": "t1", "content": "no such file", "is_error": True}
    (message,) = messages(messages=[{"role": "user", "content": [result]}])
    assert message["content"] == [text("Error:"), text("no such file")]


def test_turns_of_one_role_are_one_message() -> None:
    written = messages(messages=[{"role": "user", "content": "a"}, {"role": "user", "content": [text("b")]}])
    assert written == [{"role": "user", "content": [text("a"), text("b")]}]


def test_a_last_turn_of_the_assistant_is_continued() -> None:
    planned = plan(messages=[*HELLO["messages"], {"role": "assistant", "content": "The answer is"}])
    (prompt,) = planned.request.prompts
    assert isinstance(prompt, ChatPrompt)
    assert prompt.continue_final_message
    assert not prompt.add_generation_prompt


def test_an_empty_turn_is_still_a_turn() -> None:
    assert messages(messages=[{"role": "user", "content": []}]) == [{"role": "user", "content": ""}]


def test_how_to_sample() -> None:
    (sampling,) = plan(stop_sequences=["END"], temperature=0.5, top_p=0.8, top_k=7).request.sampling
    assert sampling.max_new_tokens == 20
    assert (sampling.stop, sampling.temperature) == (("END",), 0.5)
    assert (sampling.top_p, sampling.top_k) == (0.8, 7)


@pytest.mark.parametrize(
    ("choice", "is_grammar_needed", "num_shown"),
    [
        ({"type": "auto"}, False, 2),
        ({"type": "any"}, True, 2),
        ({"type": "tool", "name": "look"}, True, 1),
        ({"type": "none"}, False, 0),
    ],
)
def test_tool_choice(choice: dict[str, Any], is_grammar_needed: bool, num_shown: int) -> None:
    planned = plan(tools=[TOOL, {**TOOL, "name": "hear", "type": "custom"}], tool_choice=choice)
    (prompt,) = planned.request.prompts
    assert isinstance(prompt, ChatPrompt)
    assert bool(planned.request.grammars) == is_grammar_needed
    assert len(prompt.tools or ()) == num_shown
    assert planned.answers.is_parallel


def test_a_tool_is_shown_as_a_function() -> None:
    (prompt,) = plan(tools=[TOOL]).request.prompts
    assert isinstance(prompt, ChatPrompt)
    function = {"name": "look", "description": "Look.", "parameters": TOOL["input_schema"]}
    assert prompt.tools == [{"type": "function", "function": function}]


def test_one_call_at_most() -> None:
    choice = {"type": "auto", "disable_parallel_tool_use": True}
    assert not plan(tools=[TOOL], tool_choice=choice).answers.is_parallel


@pytest.mark.parametrize(
    ("thinking", "switch"),
    [
        ({"type": "enabled", "budget_tokens": 10}, True),
        ({"type": "adaptive"}, True),
        ({"type": "disabled"}, False),
    ],
)
def test_thinking_is_a_switch_of_the_template(thinking: dict[str, Any], switch: bool) -> None:
    (prompt,) = plan(thinking=thinking).request.prompts
    assert isinstance(prompt, ChatPrompt)
    assert prompt.template_kwargs["enable_thinking"] is switch


def test_output_config() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    planned = plan(output_config={"effort": "low", "format": {"type": "json_schema", "schema": schema}})
    (grammar,) = planned.request.grammars
    assert grammar is not None
    assert msgspec.json.decode(grammar.text) == schema
    (prompt,) = planned.request.prompts
    assert isinstance(prompt, ChatPrompt)
    assert prompt.template_kwargs["reasoning_effort"] == "low"


def user(*blocks: Any) -> list[Any]:
    return [{"role": "user", "content": list(blocks)}]


@pytest.mark.parametrize(
    ("change", "param"),
    [
        (
            {"messages": user({"type": "image", "source": {"type": "url", "url": "http://x"}})},
            "messages[0].content[0]",
        ),
        ({"messages": user(text("a"), {"type": "document"})}, "messages[0].content[1]"),
        ({"messages": user({"type": "tool_use", "id": "t", "name": "n"})}, "messages[0].content[0]"),
        ({"messages": user({"type": "text"})}, "messages[0].content[0].text"),
        ({"messages": user({"type": "tool_result"})}, "messages[0].content[0].tool_use_id"),
        (
            {"messages": user({"type": "tool_result", "tool_use_id": "t", "content": [{"type": "image"}]})},
            "messages[0].content[0].content[0]",
        ),
        (
            {"messages": [{"role": "assistant", "content": [{"type": "redacted_thinking"}]}]},
            "messages[0].content[0]",
        ),
        ({"system": [{"type": "image"}]}, "system[0]"),
        ({"tools": [{"type": "web_search_20250305", "name": "web_search"}]}, "tools[0].type"),
        ({"tools": [{"name": "look"}]}, "tools[0].input_schema"),
        ({"tools": [TOOL], "tool_choice": {"type": "tool"}}, "tool_choice.name"),
        ({"temperature": 1.5}, "temperature"),
        ({"thinking": {"type": "enabled", "budget_tokens": 20}}, "thinking.budget_tokens"),
        ({"mcp_servers": [{"url": "http://x"}]}, "mcp_servers"),
        ({"container": "c"}, "container"),
        ({"context_management": {"edits": []}}, "context_management"),
        ({"output_config": {"task_budget": {"type": "tokens"}}}, "output_config.task_budget"),
    ],
)
def test_what_is_not_served_is_refused_by_name(change: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        plan(**change)
    assert refusal.value.param == param
    assert param.rpartition(".")[2] in refusal.value.message


@pytest.mark.parametrize(
    ("documented", "request_type"),
    [
        (message_create_params.MessageCreateParamsBase, MessagesRequest),
        (message_create_params.MessageCreateParamsStreaming, MessagesRequest),
        (message_count_tokens_params.MessageCountTokensParams, CountTokensRequest),
        (ToolParam, Tool),
        (TextBlockParam, Block),
        (ToolResultBlockParam, Block),
        (ToolUseBlockParam, Block),
        (OutputConfigParam, OutputConfig),
        (ThinkingConfigEnabledParam, Thinking),
    ],
)
def test_every_documented_field_is_known(documented: type, request_type: type[msgspec.Struct]) -> None:
    assert inspect.get_annotations(documented).keys() - set(request_type.__struct_fields__) == set()


def test_very_many_results_are_refused_and_no_bug() -> None:
    results = [{"type": "tool_result", "tool_use_id": "t"}] * 5000
    with pytest.raises(InvalidRequest) as refusal:
        plan(messages=user(*results) * 2)
    assert refusal.value.param == "messages"
