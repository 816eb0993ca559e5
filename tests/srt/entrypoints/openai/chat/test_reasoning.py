"""Reasoning: apart from the answer, switched on and off, counted, and in front of any form the answer must have."""

from typing import Any

import msgspec
import pytest

from srt.engine_client import ChatPrompt, FinishReason, TokenPrompt
from tests.fakes.engine_client import LENGTH, MODEL_INFO, STOP, FakeEngineClient, chunk
from tests.fakes.http_world import CHAT, error_of, events_of, post

pytestmark = pytest.mark.anyio

PATH = "/v1/chat/completions"
ANSWER = "<think>\nHm.\n</think>\n\nFour."


def saying(
    text: str, finish: FinishReason = STOP, *, parser: str | None = "qwen3", piece: int | None = None
) -> FakeEngineClient:
    size = piece or len(text)
    pieces = [text[i : i + size] for i in range(0, len(text), size)]
    model = msgspec.structs.replace(MODEL_INFO, reasoning_parser=parser, tool_call_parser="hermes")
    script = [[chunk(p, completion_tokens=min(len(text), (i + 1) * size))] for i, p in enumerate(pieces)]
    return FakeEngineClient([*script, [chunk(finish=finish, completion_tokens=len(text))]], model_info=model)


async def ask(client: FakeEngineClient, **body: Any) -> dict[str, Any]:
    response = await post(client, PATH, CHAT | body)
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


async def message_of(client: FakeEngineClient, **body: Any) -> dict[str, Any]:
    message: dict[str, Any] = (await ask(client, **body))["choices"][0]["message"]
    return message


def ending_with(text: str) -> list[dict[str, str]]:
    """Messages whose prompt ends so: the fake engine's prompt is their content."""
    return [{"role": "user", "content": text}]


async def test_a_whole_answer_has_its_reasoning_apart() -> None:
    assert await message_of(saying(ANSWER)) == {
        "role": "assistant",
        "content": "Four.",
        "reasoning_content": "Hm.",
    }


async def test_markers_that_are_special_tokens_are_left_in_the_text_that_is_read() -> None:
    client = saying(ANSWER)
    await ask(client, skip_special_tokens=True)
    assert client.requests[0].sampling[0].skip_special_tokens is False


async def test_an_answer_without_reasoning_has_none() -> None:
    assert await message_of(saying("Four.")) == {"role": "assistant", "content": "Four."}


async def test_a_prompt_that_opened_the_reasoning_has_the_answer_begin_with_it() -> None:
    message = await message_of(saying("Hm.</think>Four."), messages=ending_with("2+2?<think>\n"))
    assert (message["reasoning_content"], message["content"]) == ("Hm.", "Four.")


async def test_reasoning_that_was_cut_off_leaves_no_content() -> None:
    answer = (await ask(saying("<think>Hm", LENGTH)))["choices"][0]
    assert (answer["message"]["reasoning_content"], answer["message"]["content"]) == ("Hm", None)
    assert answer["finish_reason"] == "length"


async def test_it_can_stay_in_the_content_with_its_markers() -> None:
    message = await message_of(saying(ANSWER), separate_reasoning=False)
    assert message == {"role": "assistant", "content": ANSWER}


async def test_it_can_be_left_out() -> None:
    message = await message_of(saying(ANSWER), include_reasoning=False)
    assert message == {"role": "assistant", "content": "Four."}


async def deltas_of(client: FakeEngineClient, **body: Any) -> list[dict[str, Any]]:
    response = await post(client, PATH, CHAT | {"stream": True} | body)
    *chunks, _ = events_of(response.text)
    return [c["choices"][0]["delta"] for c in chunks]


@pytest.mark.parametrize("piece", [1, 5, 1000])
async def test_a_stream_has_it_in_deltas_of_its_own(piece: int) -> None:
    deltas = await deltas_of(saying(ANSWER, piece=piece))
    assert deltas[0] == {"role": "assistant", "content": ""}
    assert all(len(delta) == 1 for delta in deltas[1:-1])
    assert "".join(delta.get("reasoning_content", "") for delta in deltas) == "Hm."
    assert "".join(delta.get("content", "") for delta in deltas) == "Four."


async def test_a_stream_can_have_it_in_one_piece() -> None:
    deltas = await deltas_of(saying(ANSWER, piece=1), stream_reasoning=False)
    assert [delta["reasoning_content"] for delta in deltas if "reasoning_content" in delta] == ["Hm."]


async def test_in_one_piece_it_comes_even_if_nothing_follows() -> None:
    deltas = await deltas_of(saying("<think>Hm", LENGTH, piece=1), stream_reasoning=False)
    assert [delta["reasoning_content"] for delta in deltas if "reasoning_content" in delta] == ["Hm"]


async def test_a_call_behind_reasoning_is_a_call() -> None:
    call = '<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>'
    tools = [{"type": "function", "function": {"name": "f"}}]
    answer = (await ask(saying(f"<think>I call <tool_call></think>\n{call}"), tools=tools))["choices"][0]
    assert answer["message"]["reasoning_content"] == "I call <tool_call>"
    assert len(answer["message"]["tool_calls"]) == 1
    assert answer["finish_reason"] == "tool_calls"


async def test_usage_counts_it() -> None:
    usage = (await ask(saying(ANSWER)))["usage"]
    # Tokens are bytes here.
    assert usage["completion_tokens_details"] == {"reasoning_tokens": len("<think>\nHm.\n</think>")}
    none = (await ask(saying("Four.")))["usage"]
    assert none["completion_tokens_details"] == {"reasoning_tokens": 0}


async def test_a_streams_usage_counts_it_too() -> None:
    body = CHAT | {"stream": True, "stream_options": {"include_usage": True, "continuous_usage_stats": True}}
    *chunks, usage, _ = events_of((await post(saying(ANSWER, piece=1), PATH, body)).text)
    counts = [c["usage"]["completion_tokens_details"]["reasoning_tokens"] for c in [*chunks, usage]]
    assert counts == sorted(counts)
    assert counts[-1] == len("<think>\nHm.\n</think>")


async def test_models_that_do_not_reason_count_nothing() -> None:
    assert "completion_tokens_details" not in (await ask(saying("x", parser=None)))["usage"]


@pytest.mark.parametrize(
    ("body", "kwargs"),
    [
        ({"reasoning_effort": "none"}, {"reasoning_effort": "none", "enable_thinking": False, "thinking": False}),
        ({"reasoning_effort": "low"}, {"reasoning_effort": "low", "enable_thinking": True, "thinking": True}),
        ({"reasoning": {"effort": "high"}}, {"reasoning_effort": "high", "enable_thinking": True, "thinking": True}),
        ({"reasoning": {"enabled": False}}, {"enable_thinking": False, "thinking": False}),
        ({"thinking": {"type": "disabled"}}, {"enable_thinking": False, "thinking": False}),
        ({"thinking": True}, {"enable_thinking": True, "thinking": True}),
        (
            {"reasoning_effort": "high", "chat_template_kwargs": {"enable_thinking": False}},
            {"reasoning_effort": "high", "enable_thinking": False},
        ),
        ({"reasoning": {"effort": None, "enabled": None}, "thinking": None}, {}),
    ],
)  # fmt: skip
async def test_every_way_to_say_how_much_to_think_reaches_the_template(
    body: dict[str, Any], kwargs: dict[str, Any]
) -> None:
    client = saying("x")
    await ask(client, **body)
    (prompt,) = client.requests[0].prompts
    assert isinstance(prompt, ChatPrompt)
    assert prompt.template_kwargs == kwargs


@pytest.mark.parametrize("body", [{"thinking": {"type": "maybe"}}, {"reasoning": "high"}, {"thinking": "on"}])
async def test_another_way_is_a_400(body: dict[str, Any]) -> None:
    response = await post(saying("x"), PATH, CHAT | body)
    assert response.status_code == 400
    assert (error_of(response)["param"] or "").startswith(next(iter(body)))


JSON_FORM = {"response_format": {"type": "json_object"}}


@pytest.mark.parametrize(
    ("prompt", "prompt_end", "begins_after"),
    [
        ("2+2?", "2+2?<think>\n", "</think>"),  # whether it thinks is up to the model: here it must
        ("2+2?<think>\n", "2+2?<think>\n", "</think>"),
        ("2+2?<think>\n\n</think>\n\n", "2+2?<think>\n\n</think>\n\n", None),
    ],
)
async def test_a_form_begins_where_the_reasoning_ends(
    prompt: str, prompt_end: str, begins_after: str | None
) -> None:
    client = saying("x")
    await ask(client, messages=ending_with(prompt), **JSON_FORM)
    request = client.requests[0]
    (grammar,) = request.grammars
    assert grammar is not None
    assert grammar.begins_after == begins_after
    assert list(request.prompts) == [TokenPrompt(list(prompt_end.encode()))]


async def test_reasoning_in_front_of_a_form_is_still_reasoning() -> None:
    message = await message_of(saying("Hm.</think>{}"), **JSON_FORM)
    assert (message["reasoning_content"], message["content"]) == ("Hm.", "{}")


@pytest.mark.parametrize(
    ("content", "answer", "message"),
    [
        ("<think>Hm", "m.</think>4", {"reasoning_content": "m.", "content": "4"}),
        ("<think>Hm.</think>Fo", "ur.", {"content": "ur."}),
        ("Fo", "ur.", {"content": "ur."}),
    ],
)
@pytest.mark.parametrize("parser", ["qwen3", "deepseek-r1"])
async def test_a_message_that_is_gone_on_with_says_itself_where_it_stands(
    content: str, answer: str, message: dict[str, str], parser: str
) -> None:
    messages = [*CHAT["messages"], {"role": "assistant", "content": content}]
    told = await message_of(saying(answer, parser=parser), messages=messages, continue_final_message=True)
    assert told == {"role": "assistant"} | message


async def test_earlier_reasoning_reaches_the_template_under_either_name() -> None:
    messages = [
        {"role": "assistant", "content": "a", "reasoning_content": "x"},
        {"role": "assistant", "content": "b", "reasoning": "y"},
        *CHAT["messages"],
    ]
    client = saying("x")
    await ask(client, messages=messages)
    (prompt,) = client.requests[0].prompts
    assert isinstance(prompt, ChatPrompt)
    assert [m.get("reasoning_content") for m in prompt.messages] == ["x", "y", None]
