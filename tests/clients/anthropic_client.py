"""The official Anthropic client against a server of ours."""

import anthropic
import pytest
from served import (
    CITIES,
    MAX_TOKENS,
    QUESTION,
    URL,
    WEATHER_SCHEMA,
    greedy_answer,
    model_name,
    wait_until_idle,
)

ANSWER = greedy_answer()
client = anthropic.Anthropic(base_url=URL, api_key="none", max_retries=0)
BODY = {"model": model_name(), "messages": [{"role": "user", "content": QUESTION}]}
# The client has no words of its own for sampling any more; the API has.
GREEDY = {**BODY, "max_tokens": MAX_TOKENS, "extra_body": {"temperature": 0}}
TOOLS = {
    "tools": [{"name": "get_weather", "description": "The weather", "input_schema": WEATHER_SCHEMA}],
    "tool_choice": {"type": "tool", "name": "get_weather", "disable_parallel_tool_use": True},
}


def test_a_message() -> None:
    message = client.messages.create(**GREEDY)
    assert message.content[0].text == ANSWER
    assert message.stop_reason in ("end_turn", "max_tokens")
    assert 0 < message.usage.output_tokens <= MAX_TOKENS


def test_a_stream_joins_to_the_same() -> None:
    with client.messages.stream(**GREEDY) as stream:
        assert "".join(stream.text_stream) == ANSWER
        message = stream.get_final_message()
    assert message.content[0].text == ANSWER
    assert message.usage.output_tokens > 0


def test_stop_sequences() -> None:
    stop = ANSWER[8:11]
    message = client.messages.create(**GREEDY, stop_sequences=[stop])
    assert message.content[0].text == ANSWER[: ANSWER.index(stop)]
    assert (message.stop_reason, message.stop_sequence) == ("stop_sequence", stop)


def test_a_tool_is_used_and_its_result_taken() -> None:
    message = client.messages.create(**{**GREEDY, "max_tokens": 60}, **TOOLS)
    assert message.stop_reason == "tool_use"
    (use,) = [block for block in message.content if block.type == "tool_use"]
    assert (use.name, use.input["city"] in CITIES) == ("get_weather", True)
    result = {"type": "tool_result", "tool_use_id": use.id, "content": "sunny"}
    messages = [
        *BODY["messages"],
        {"role": "assistant", "content": [block.model_dump() for block in message.content]},
        {"role": "user", "content": [result]},
    ]
    assert client.messages.create(**{**GREEDY, "messages": messages}).role == "assistant"


def test_a_streamed_tool_use() -> None:
    with client.messages.stream(**{**GREEDY, "max_tokens": 60}, **TOOLS) as stream:
        message = stream.get_final_message()
    (use,) = [block for block in message.content if block.type == "tool_use"]
    assert use.input["city"] in CITIES


def test_tokens_are_counted() -> None:
    counted = client.messages.count_tokens(**BODY, system="Be brief.")
    message = client.messages.create(**GREEDY, system="Be brief.")
    usage = message.usage
    assert counted.input_tokens == usage.input_tokens + (usage.cache_read_input_tokens or 0)


def test_a_bad_parameter_is_a_bad_request() -> None:
    with pytest.raises(anthropic.BadRequestError) as raised:
        client.messages.create(**{**GREEDY, "extra_body": {"top_p": 7}})
    assert "top_p" in raised.value.message


def test_leaving_a_stream_ends_the_work() -> None:
    with client.messages.stream(**{**GREEDY, "max_tokens": 4000}) as stream:
        next(iter(stream.text_stream))
    wait_until_idle()
