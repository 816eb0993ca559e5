"""A chat request as the engine gets it."""

from typing import Any

import msgspec
import pytest

from srt.engine_client import ChatPrompt, GenerateRequest, TokenPrompt
from srt.entrypoints.openai.chat.protocol import ChatRequest
from srt.sampling.params import SamplingParams
from tests.fakes.engine_client import STOP, FakeEngineClient, chunk
from tests.fakes.http_world import CHAT, error_of, post

pytestmark = pytest.mark.anyio

PATH = "/v1/chat/completions"
NULLABLE = {field.name for field in msgspec.structs.fields(ChatRequest)} - {"messages"} | {"user", "metadata"}


async def request_of(body: dict[str, Any]) -> GenerateRequest:
    client = FakeEngineClient([[chunk("a", index=i, finish=STOP) for i in range(body.get("n") or 1)]])
    response = await post(client, PATH, CHAT | body)
    assert response.status_code == 200, response.text
    return client.requests[0]


async def prompt_of(body: dict[str, Any]) -> ChatPrompt:
    (prompt,) = (await request_of(body)).prompts
    assert isinstance(prompt, ChatPrompt)
    return prompt


async def sampling_of(body: dict[str, Any]) -> SamplingParams:
    (sampling,) = (await request_of(body)).sampling
    return sampling


async def param_of(body: dict[str, Any]) -> str | None:
    client = FakeEngineClient()
    response = await post(client, PATH, CHAT | body)
    assert response.status_code == 400, response.text
    assert client.generations == []
    param: str | None = error_of(response)["param"]
    return param


async def test_what_is_left_open_comes_from_the_checkpoint_then_from_openai() -> None:
    # The fake checkpoint recommends these two.
    assert await sampling_of({}) == SamplingParams(max_new_tokens=None, temperature=0.6, top_p=0.9)


async def test_null_is_absent_for_every_field() -> None:
    assert await sampling_of(dict.fromkeys(NULLABLE)) == await sampling_of({})


async def test_every_setting_arrives() -> None:
    sampling = await sampling_of(
        {
            "n": 3,
            "seed": -5,
            "temperature": 0,
            "top_p": 0.5,
            "top_k": 0,
            "min_p": 0.1,
            "frequency_penalty": 1,
            "presence_penalty": -1,
            "repetition_penalty": 1.5,
            "min_tokens": 2,
            "max_tokens": 9,
            "stop": ["x", "yy"],
            "stop_token_ids": [7, None, 8],
            "ignore_eos": True,
            "skip_special_tokens": False,
            "no_stop_trim": True,
            "logit_bias": {"5": -100, "6": 1.5},
        }
    )
    assert sampling == SamplingParams(
        n=3,
        seed=-5,
        temperature=0.0,
        top_p=0.5,
        top_k=0,
        min_p=0.1,
        frequency_penalty=1.0,
        presence_penalty=-1.0,
        repetition_penalty=1.5,
        min_new_tokens=2,
        max_new_tokens=9,
        stop=("x", "yy"),
        stop_token_ids=(7, 8),
        ignore_eos=True,
        skip_special_tokens=False,
        no_stop_trim=True,
        logit_bias=((5, -100.0), (6, 1.5)),
    )


@pytest.mark.parametrize(
    ("body", "limit"),
    [
        ({"max_tokens": 5}, 5),
        ({"max_completion_tokens": 6}, 6),
        ({"max_tokens": 5, "max_completion_tokens": 6}, 6),
        ({"max_tokens": None, "max_completion_tokens": None}, None),
    ],
)
async def test_the_newer_name_of_the_limit_wins(body: dict[str, Any], limit: int | None) -> None:
    assert (await sampling_of(body)).max_new_tokens == limit


@pytest.mark.parametrize(
    ("stop", "stops"), [(None, ()), ("", ()), ([], ()), ("a", ("a",)), (list("abcde"), tuple("abcde"))]
)
async def test_stop_is_a_text_or_a_list(stop: Any, stops: tuple[str, ...]) -> None:
    assert (await sampling_of({"stop": stop})).stop == stops


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": -5}, "max_tokens"),
        ({"max_tokens": 10**30}, "max_tokens"),
        ({"max_completion_tokens": -5}, "max_completion_tokens"),
        ({"min_tokens": -1}, "min_tokens"),
        ({"min_tokens": 9, "max_tokens": 5}, "min_tokens"),
        ({"n": 0}, "n"),
        ({"n": -1}, "n"),
        ({"n": 10_000}, "n"),
        ({"temperature": -1}, "temperature"),
        ({"top_p": 0}, "top_p"),
        ({"top_p": 2}, "top_p"),
        ({"top_k": -2}, "top_k"),
        ({"min_p": 2}, "min_p"),
        ({"frequency_penalty": 9}, "frequency_penalty"),
        ({"presence_penalty": -9}, "presence_penalty"),
        ({"repetition_penalty": 0}, "repetition_penalty"),
        ({"seed": 2**63}, "seed"),
        ({"stop": [""]}, "stop"),
        ({"stop": ["x"] * 33}, "stop"),
        ({"stop_token_ids": [-1]}, "stop_token_ids"),
        ({"stop_token_ids": [99_999_999]}, "stop_token_ids"),
        ({"logit_bias": {"AI": -100}}, "logit_bias"),
        ({"logit_bias": {"1_0": 1}}, "logit_bias"),
        ({"logit_bias": {"٣": 1}}, "logit_bias"),
        ({"logit_bias": {"": 1}}, "logit_bias"),
        ({"logit_bias": {"5": 1e9}}, "logit_bias"),
        ({"logit_bias": {"-1": 1}}, "logit_bias"),
        ({"logit_bias": {"99999999": 1}}, "logit_bias"),
        ({"model": "x" * 513}, "model"),
        ({"rid": ""}, "rid"),
        ({"rid": "a\nb"}, "rid"),
        ({"rid": "x" * 257}, "rid"),
        ({"messages": [{"role": "wizard", "content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "user"}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": None}]}, "messages[0].content"),
    ],
)
async def test_a_value_out_of_range_is_a_400_that_names_the_clients_field(
    body: dict[str, Any], param: str
) -> None:
    assert await param_of(body) == param


async def test_the_message_speaks_the_clients_language_too() -> None:
    response = await post(FakeEngineClient(), PATH, CHAT | {"min_tokens": 9, "max_completion_tokens": 5})
    assert error_of(response)["message"] == "min_tokens (9) is greater than max_completion_tokens (5)"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("stop_regex", "a+"),
        ("prompt_logprobs", 1),
        ("bad_words", ["x"]),
        ("verbosity", "low"),
        ("functions", [{"name": "f"}]),
        ("function_call", {"name": "f"}),
        ("web_search_options", {"search_context_size": "low"}),
        ("echo", True),
        ("audio", {"voice": "v", "format": "wav"}),
        ("lora_path", "adapter"),
        ("thinking_token_budget", 100),
        ("use_beam_search", True),
        ("session_params", {"id": "a"}),
        ("return_hidden_states", True),
        ("chat_template", "{{ x }}"),
        ("modalities", ["text", "audio"]),
    ],
)
async def test_what_is_not_served_is_refused_by_name(field: str, value: Any) -> None:
    assert await param_of({field: value}) == field


@pytest.mark.parametrize(
    "body",
    [
        {"logprobs": False, "top_logprobs": 0},
        {"response_format": {"type": "text"}},
        {"tools": [], "tool_choice": "auto", "parallel_tool_calls": True},
        {"tools": [{"type": "function", "function": {"name": "f"}}], "tool_choice": "none"},
        {"tool_choice": "none", "functions": [], "function_call": "none"},
        {"regex": "", "ebnf": "", "lora_path": None, "return_hidden_states": False},
        {"user": "u", "metadata": {"a": "b"}, "store": True, "service_tier": "auto", "a_stranger": [1]},
        {"safety_identifier": "u", "prompt_cache_key": "k", "prompt_cache_retention": "24h"},
        {"prediction": {"type": "content", "content": "x"}, "verbosity": "medium", "length_penalty": 1.0},
        {"separate_reasoning": True, "stream_reasoning": True, "data_parallel_rank": 0, "priority": 0},
        {"modalities": ["text"], "stream_options": {"include_usage": True}},
    ],
)
async def test_what_asks_for_nothing_is_fine(body: dict[str, Any]) -> None:
    await request_of(body)


async def test_tools_that_must_not_be_called_are_not_shown_to_the_model() -> None:
    tools = [{"type": "function", "function": {"name": "f"}}]
    assert (await prompt_of({"tools": tools, "tool_choice": "none"})).tools is None


async def test_messages_reach_the_template_plain() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"x":1}'}}
    messages = [
        {"role": "developer", "content": "Be brief."},
        {
            "role": "User",
            "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}],
            "name": None,
        },
        {"role": "assistant", "content": None, "tool_calls": [call], "refusal": None, "annotations": []},
        {"role": "tool", "content": "7", "tool_call_id": "c1"},
    ]
    assert (await prompt_of({"messages": messages})).messages == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "content": "7", "tool_call_id": "c1"},
    ]


@pytest.mark.parametrize(
    "part",
    [
        {"type": "image_url", "image_url": {"url": "http://x"}},
        {"type": "input_audio", "input_audio": {"data": "", "format": "wav"}},
        {"type": "video_url"},
    ],
)
async def test_a_part_that_is_no_text_is_refused_by_its_place(part: dict[str, Any]) -> None:
    content = [{"type": "text", "text": "look"}, part]
    messages = [{"role": "system", "content": "x"}, {"role": "user", "content": content}]
    assert await param_of({"messages": messages}) == "messages[1].content[1]"


async def test_a_prompt_ends_with_the_models_turn_unless_it_goes_on_with_the_last_message() -> None:
    plain = await prompt_of({})
    continued = await prompt_of({"continue_final_message": True})
    neither = await prompt_of({"add_generation_prompt": False})
    assert (plain.add_generation_prompt, plain.continue_final_message) == (True, False)
    assert (continued.add_generation_prompt, continued.continue_final_message) == (False, True)
    assert (neither.add_generation_prompt, neither.continue_final_message) == (False, False)


async def test_template_kwargs_and_reasoning_effort_reach_the_template() -> None:
    prompt = await prompt_of({"chat_template_kwargs": {"enable_thinking": False}, "reasoning_effort": "low"})
    assert prompt.template_kwargs == {"enable_thinking": False, "reasoning_effort": "low"}


async def test_ids_stand_in_for_the_template() -> None:
    (prompt,) = (await request_of({"input_ids": [5, 6], "messages": []})).prompts
    assert prompt == TokenPrompt([5, 6])


async def test_vllms_name_for_keeping_the_stop_string_is_honoured() -> None:
    assert (await sampling_of({"include_stop_str_in_output": True})).no_stop_trim is True


async def test_an_earlier_refusal_is_what_the_assistant_said() -> None:
    parts = [{"type": "refusal", "refusal": "No."}, {"type": "text", "text": "Sorry."}]
    messages = [
        {"role": "assistant", "content": parts},
        {"role": "assistant", "content": None, "refusal": "No."},
    ]
    contents = [m["content"] for m in (await prompt_of({"messages": messages})).messages]
    assert contents == [[{"type": "text", "text": "No."}, {"type": "text", "text": "Sorry."}], "No."]


@pytest.mark.parametrize("field", ["audio", "function_call"])
async def test_what_an_earlier_answer_had_and_we_do_not_know_is_refused_by_its_place(field: str) -> None:
    messages = [*CHAT["messages"], {"role": "assistant", "content": "a", field: {"id": "x", "name": "f"}}]
    assert await param_of({"messages": messages}) == f"messages[1].{field}"


async def test_salts_and_keys_cannot_be_mistaken_for_each_other() -> None:
    namespaces = [
        (await request_of(body)).namespace
        for body in (
            {},
            {"extra_key": ""},
            {"cache_salt": "ab"},
            {"extra_key": "ab"},
            {"cache_salt": "b", "extra_key": "a"},
            {"cache_salt": "a", "extra_key": "b"},
        )
    ]
    assert namespaces[0] == namespaces[1] == ()
    assert len(set(namespaces[1:])) == 5


async def test_the_clients_rid_names_the_request() -> None:
    assert (await request_of({"rid": "my-rid"})).rid == "my-rid"
    assert (await request_of({"request_id": "vllms"})).rid == "vllms"


async def test_what_the_gateway_adds_is_accepted() -> None:
    body = {
        "model": "unknown",
        "logprobs": False,
        "stream": False,
        "no_stop_trim": False,
        "ignore_eos": False,
        "continue_final_message": False,
        "skip_special_tokens": True,
        "separate_reasoning": True,
        "stream_reasoning": True,
        "return_hidden_states": False,
        "max_completion_tokens": 5,
        "data_parallel_rank": 0,
    }
    assert (await sampling_of(body)).max_new_tokens == 5
