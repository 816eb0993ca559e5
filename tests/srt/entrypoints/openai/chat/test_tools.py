"""Tools: checked, shown to the model, called by it as the official client reads it, and enforced where they must be."""

import json
from typing import Any

import msgspec
import pytest
from openai import BadRequestError

from srt.engine_client import ChatPrompt, FinishReason, GenerateChunk
from srt.errors import InvalidRequest
from tests.fakes.engine_client import LENGTH, MODEL_INFO, STOP, FakeEngineClient, chunk
from tests.fakes.http_world import CHAT, error_of, events_of, post, serving

pytestmark = pytest.mark.anyio

PATH = "/v1/chat/completions"
HERMES = msgspec.structs.replace(MODEL_INFO, tool_call_parser="hermes")
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = {
    "type": "function",
    "function": {"name": "weather", "description": "d", "parameters": PARAMETERS},
}
TIME = {"type": "function", "function": {"name": "time"}}
CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "Rome"}}\n</tool_call>'
SECOND_CALL = '<tool_call>\n{"name": "time", "arguments": {}}\n</tool_call>'
NAMED = {"type": "function", "function": {"name": "weather"}}


def strict(tool: dict[str, Any]) -> dict[str, Any]:
    return {**tool, "function": {**tool["function"], "strict": True}}


def saying(
    text: str, finish: FinishReason = STOP, *, piece: int | None = None, parser: str | None = "hermes"
) -> FakeEngineClient:
    """A model that says this, in pieces of so many characters."""
    size = piece or len(text)
    pieces = [text[i : i + size] for i in range(0, len(text), size)]
    script: list[list[GenerateChunk]] = [[chunk(p)] for p in pieces]
    model = msgspec.structs.replace(MODEL_INFO, tool_call_parser=parser)
    return FakeEngineClient([*script, [chunk(finish=finish)]], model_info=model)


async def ask(client: FakeEngineClient, **body: Any) -> dict[str, Any]:
    response = await post(client, PATH, CHAT | {"tools": [WEATHER, TIME]} | body)
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()["choices"][0]
    return answer


async def refused(body: dict[str, Any], parser: str | None = "hermes") -> str | None:
    client = saying("x", parser=parser)
    response = await post(client, PATH, CHAT | body)
    assert response.status_code == 400, response.text
    assert client.requests == []
    param: str | None = error_of(response)["param"]
    return param


def allowed(mode: str, *names: str) -> dict[str, Any]:
    """A `tool_choice` of these tools."""
    tools = [{"type": "function", "function": {"name": name}} for name in names]
    return {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": tools}}


async def grammar_of(**body: Any) -> dict[str, Any]:
    parser = body.pop("parser", "hermes")
    client = saying("x", parser=parser)
    await ask(client, **body)
    (grammar,) = client.requests[0].grammars
    assert grammar is not None
    return {"kind": grammar.kind, **json.loads(grammar.text)}


# What the model is shown.


async def test_the_template_gets_the_tools_as_the_client_wrote_them() -> None:
    client = saying("hi")
    time = {"type": "function", "function": {"name": "time", "description": None, "parameters": None}}
    await ask(client, tools=[strict(WEATHER), time])
    (prompt,) = client.requests[0].prompts
    assert isinstance(prompt, ChatPrompt)
    # But for `strict`, which is said to us, and what is null.
    assert prompt.tools == [WEATHER, TIME]
    assert client.requests[0].sampling[0].skip_special_tokens is False


async def test_only_a_named_tool_is_shown() -> None:
    client = saying("[]")
    await ask(client, tool_choice=NAMED)
    (prompt,) = client.requests[0].prompts
    assert isinstance(prompt, ChatPrompt)
    assert prompt.tools == [WEATHER]


@pytest.mark.parametrize("mode", ["auto", "required"])
async def test_only_allowed_tools_are_shown_and_required_ones_enforced(mode: str) -> None:
    client = saying("hi")
    tide = {"type": "function", "function": {"name": "tide"}}
    await ask(client, tools=[TIME, WEATHER, tide], tool_choice=allowed(mode, "tide", "time"))
    (prompt,) = client.requests[0].prompts
    assert isinstance(prompt, ChatPrompt)
    assert prompt.tools == [TIME, tide]
    assert bool(client.requests[0].grammars) == (mode == "required")


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"tools": [{"type": "web_search"}]}, "tools[0].type"),
        ({"tools": [{"type": "custom", "custom": {"name": "f"}}]}, "tools[0].type"),
        ({"tools": [TIME, {"type": "function"}]}, "tools[1].function"),
        ({"tools": [{"function": {"name": "f"}}]}, "tools[0]"),
        ({"tools": [{"type": "function", "function": {}}]}, "tools[0].function"),
        ({"tools": [{"type": "function", "function": {"name": 5}}]}, "tools[0].function.name"),
        ({"tools": [{"type": "function", "function": {"name": "a b"}}]}, "tools[0].function.name"),
        ({"tools": [{"type": "function", "function": {"name": ""}}]}, "tools[0].function.name"),
        ({"tools": [TIME, TIME]}, "tools[1].function.name"),
        (
            {"tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "array"}}}]},
            "tools[0].function.parameters",
        ),
        (
            {"tools": [{"type": "function", "function": {"name": "f", "parameters": []}}]},
            "tools[0].function.parameters",
        ),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"tool_choice": NAMED}, "tool_choice"),
        ({"tools": [TIME], "tool_choice": "maybe"}, "tool_choice"),
        ({"tools": [TIME], "tool_choice": NAMED}, "tool_choice.function.name"),
        ({"tools": [TIME], "tool_choice": {"type": "function"}}, "tool_choice"),
        ({"tools": [TIME], "tool_choice": {"type": "allowed_tools", "allowed_tools": {}}}, "tool_choice"),
        ({"tools": [TIME], "tool_choice": allowed("auto")}, "tool_choice"),
        ({"tools": [TIME], "tool_choice": allowed("none", "time")}, "tool_choice"),
        ({"tools": [TIME], "tool_choice": allowed("auto", "tide")}, "tool_choice.allowed_tools.tools"),
        ({"tool_choice": allowed("auto", "time")}, "tool_choice"),
        ({"tools": [TIME], "tool_choice": {"type": "custom", "custom": {"name": "f"}}}, "tool_choice"),
        (
            {"tools": [TIME], "tool_choice": "required", "response_format": {"type": "json_object"}},
            "response_format",
        ),
        ({"tools": [TIME], "tool_choice": "required", "regex": "a"}, "regex"),
    ],
)
async def test_tools_that_are_none_are_a_400_that_says_where(body: dict[str, Any], param: str) -> None:
    assert await refused(body) == param


async def test_calls_that_nobody_could_tell_from_text_are_refused() -> None:
    assert await refused({"tools": [TIME]}, parser=None) == "tools"


# What the model says.


@pytest.mark.parametrize("tools", [None, [], [WEATHER]])
async def test_text_stays_text(tools: Any) -> None:
    answer = await ask(saying("Just <b>text</b>."), tools=tools)
    assert answer["message"] == {"role": "assistant", "content": "Just <b>text</b>."}
    assert answer["finish_reason"] == "stop"


async def test_a_whole_answer_has_its_calls_and_null_content() -> None:
    answer = await ask(saying(CALL + "\n" + SECOND_CALL))
    calls = answer["message"]["tool_calls"]
    assert answer["message"]["content"] is None
    assert [c["function"] for c in calls] == [
        {"name": "weather", "arguments": '{"city": "Rome"}'},
        {"name": "time", "arguments": "{}"},
    ]
    assert all(len(c["id"]) == 29 and c["id"].startswith("call_") and c["type"] == "function" for c in calls)
    assert len({c["id"] for c in calls}) == 2
    assert answer["finish_reason"] == "tool_calls"


async def test_text_before_a_call_is_content() -> None:
    answer = await ask(saying("Let me see.\n" + CALL))
    assert answer["message"]["content"] == "Let me see."
    assert len(answer["message"]["tool_calls"]) == 1


async def test_a_call_that_was_cut_off_does_not_count_as_made() -> None:
    answer = await ask(saying(CALL[:50], LENGTH))
    assert answer["finish_reason"] == "length"


async def test_whole_calls_of_an_answer_that_was_cut_off_do_not_either() -> None:
    assert (await ask(saying(CALL + SECOND_CALL[:20], LENGTH)))["finish_reason"] == "length"


async def test_without_parallel_calls_there_is_one() -> None:
    answer = await ask(saying(CALL + SECOND_CALL), parallel_tool_calls=False)
    assert [c["function"]["name"] for c in answer["message"]["tool_calls"]] == ["weather"]


async def test_with_none_a_call_is_text() -> None:
    answer = await ask(saying(CALL), tool_choice="none")
    assert answer["message"] == {"role": "assistant", "content": CALL}


@pytest.mark.parametrize("piece", [1, 7, 1000])
async def test_a_streamed_call_is_named_once_and_then_argued(piece: int) -> None:
    client = saying("Hm." + CALL, piece=piece)
    response = await post(client, PATH, CHAT | {"tools": [WEATHER], "stream": True})
    *chunks, done = events_of(response.text)
    deltas = [c["choices"][0]["delta"] for c in chunks]
    assert deltas[0] == {"role": "assistant", "content": ""}
    assert "".join(d.get("content", "") for d in deltas) == "Hm."
    calls = [call for d in deltas for call in d.get("tool_calls", ())]
    call_id = calls[0].pop("id")
    assert call_id.startswith("call_")
    assert calls[0] == {"index": 0, "type": "function", "function": {"name": "weather", "arguments": ""}}
    assert all(set(call) == {"index", "function"} for call in calls[1:])
    assert "".join(call["function"]["arguments"] for call in calls) == '{"city": "Rome"}'
    assert [c["choices"][0]["finish_reason"] for c in chunks[:-1]] == [None] * (len(chunks) - 1)
    assert chunks[-1]["choices"][0]["finish_reason"] == "tool_calls"
    assert done == "[DONE]"


async def test_the_official_client_puts_streamed_calls_together() -> None:
    async with (
        serving(saying("Hm." + CALL + SECOND_CALL, piece=3)) as world,
        world.openai() as openai,
        openai.chat.completions.stream(
            model="m",
            messages=CHAT["messages"],
            tools=[WEATHER, TIME],  # type: ignore[list-item]
        ) as stream,
    ):
        (choice,) = (await stream.get_final_completion()).choices
    assert choice.finish_reason == "tool_calls"
    assert choice.message.content == "Hm."
    assert [(c.function.name, c.function.arguments) for c in choice.message.tool_calls or ()] == [
        ("weather", '{"city": "Rome"}'),
        ("time", "{}"),
    ]


async def test_the_official_client_sees_which_tool_is_wrong() -> None:
    async with serving(saying("x")) as world, world.openai() as openai:
        with pytest.raises(BadRequestError) as raised:
            await openai.chat.completions.create(
                model="m",
                messages=CHAT["messages"],
                tools=[TIME, TIME],  # type: ignore[list-item]
            )
    assert raised.value.param == "tools[1].function.name"


async def test_a_model_that_numbers_its_calls_is_heeded_unless_two_are_alike() -> None:
    def call(name: str, number: int) -> str:
        return (
            "<|tool_calls_section_begin|><|tool_call_begin|>"
            f"functions.{name}:{number}<|tool_call_argument_begin|>{{}}<|tool_call_end|><|tool_calls_section_end|>"
        )

    answer = await ask(saying(call("time", 4) + call("weather", 5) + call("time", 4), parser="kimi_k2"))
    ids = [c["id"] for c in answer["message"]["tool_calls"]]
    assert ids[:2] == ["functions.time:4", "functions.weather:5"]
    assert ids[2].startswith("call_")


# What the model must say.


async def test_a_required_call_is_enforced_in_the_models_own_words() -> None:
    grammar = await grammar_of(tool_choice="required")
    assert grammar["kind"] == "structural_tag"
    tags = grammar["format"]
    assert (tags["type"], tags["at_least_one"], tags["stop_after_first"]) == ("triggered_tags", True, False)
    assert tags["triggers"] == ["<tool_call>"]
    assert [tag["begin"] for tag in tags["tags"]] == [
        '<tool_call>\n{"name": "weather", "arguments": ',
        '<tool_call>\n{"name": "time", "arguments": ',
    ]
    assert tags["tags"][0]["content"] == {"type": "json_schema", "json_schema": PARAMETERS}


async def test_parameters_that_are_alternatives_get_no_type_beside_them() -> None:
    either = {"anyOf": [PARAMETERS, {"type": "object", "properties": {"zip": {"type": "integer"}}}]}
    tool = {"type": "function", "function": {"name": "weather", "parameters": either}}
    grammar = await grammar_of(tools=[tool], tool_choice="required")
    assert grammar["format"]["tags"][0]["content"]["json_schema"] == either


async def test_a_named_call_without_parallel_ones_is_exactly_one() -> None:
    tags = (await grammar_of(tool_choice=NAMED, parallel_tool_calls=False))["format"]
    assert len(tags["tags"]) == 1
    assert tags["stop_after_first"] is True


async def test_a_model_without_a_format_calls_in_an_array() -> None:
    text = '[{"name": "weather", "parameters": {"city": "Rome"}}]'
    client = saying(text, parser=None)
    answer = await ask(client, tool_choice="required")
    assert answer["message"]["tool_calls"][0]["function"] == {
        "name": "weather",
        "arguments": '{"city": "Rome"}',
    }
    assert answer["finish_reason"] == "tool_calls"
    (grammar,) = client.requests[0].grammars
    assert grammar is not None
    assert grammar.kind == "json_schema"
    schema = json.loads(grammar.text)
    assert (schema["type"], schema["minItems"], "maxItems" in schema) == ("array", 1, False)
    assert schema["items"]["anyOf"][0] == {
        "type": "object",
        "properties": {"name": {"const": "weather"}, "parameters": PARAMETERS},
        "required": ["name", "parameters"],
        "additionalProperties": False,
    }


async def test_definitions_of_tools_move_to_where_references_find_them() -> None:
    def tool(name: str, unit: list[str]) -> dict[str, Any]:
        parameters = {"properties": {"u": {"$ref": "#/$defs/Unit"}}, "$defs": {"Unit": {"enum": unit}}}
        return {"type": "function", "function": {"name": name, "parameters": parameters}}

    body = {"tool_choice": "required", "parallel_tool_calls": False, "parser": None}
    schema = await grammar_of(tools=[tool("a", ["m"]), tool("b", ["m"])], **body)
    assert schema["$defs"] == {"Unit": {"enum": ["m"]}}
    assert schema["maxItems"] == 1
    clash = {"tools": [tool("a", ["m"]), tool("b", ["s"])], "tool_choice": "required"}
    assert await refused(clash, parser=None) == "tools"


async def test_a_strict_tool_is_enforced_as_soon_as_the_model_calls() -> None:
    tags = (await grammar_of(tools=[strict(WEATHER), TIME]))["format"]
    assert (tags["at_least_one"], tags["stop_after_first"]) == (False, False)
    schemas = [tag["content"]["json_schema"] for tag in tags["tags"]]
    assert schemas == [PARAMETERS, {"type": "object"}]


async def test_without_a_strict_tool_nothing_is_enforced() -> None:
    client = saying("x")
    await ask(client)
    assert list(client.requests[0].grammars) == []


async def test_tools_and_a_form_mean_either() -> None:
    grammar = await grammar_of(response_format={"type": "json_object"})
    answer, calls = grammar["format"]["elements"]
    assert grammar["format"]["type"] == "or"
    assert answer == {"type": "json_schema", "json_schema": {"type": "object"}}
    assert (calls["type"], calls["at_least_one"]) == ("triggered_tags", True)


async def test_what_the_compiler_refuses_of_a_tool_is_told_of_the_tools() -> None:
    client = saying("x")
    client.refusal = InvalidRequest("structural_tag: no", param="structural_tag")
    response = await post(client, PATH, CHAT | {"tools": [WEATHER], "tool_choice": "required"})
    assert error_of(response)["param"] == "tools"
