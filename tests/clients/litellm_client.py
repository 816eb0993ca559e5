"""LiteLLM, which speaks to us as to OpenAI and as to Anthropic."""

import asyncio
import json

import litellm
import pytest
from served import (
    CITIES,
    MAX_TOKENS,
    QUESTION,
    URL,
    WEATHER_TOOL,
    greedy_answer,
    model_name,
)

MODEL = model_name()
ANSWER = greedy_answer()
OPENAI = {"model": f"openai/{MODEL}", "api_base": f"{URL}/v1", "api_key": "none", "num_retries": 0}
GREEDY = {
    "messages": [{"role": "user", "content": QUESTION}],
    "temperature": 0,
    "max_tokens": MAX_TOKENS,
}


def test_completion() -> None:
    answer = litellm.completion(**OPENAI, **GREEDY)
    assert answer.choices[0].message.content == ANSWER
    assert answer.usage.completion_tokens <= MAX_TOKENS


def test_stream_joins_to_the_same() -> None:
    chunks = list(litellm.completion(**OPENAI, **GREEDY, stream=True, stream_options={"include_usage": True}))
    whole = litellm.stream_chunk_builder(chunks)
    assert whole.choices[0].message.content == ANSWER
    assert whole.usage.completion_tokens > 0


def test_asynchronous() -> None:
    answer = asyncio.run(litellm.acompletion(**OPENAI, **GREEDY))
    assert answer.choices[0].message.content == ANSWER


def test_a_required_tool_is_called_whole_and_streamed() -> None:
    tools = {"tools": [WEATHER_TOOL], "tool_choice": "required", "parallel_tool_calls": False}
    body = {**GREEDY, "max_tokens": 60, **tools}
    chunks = list(litellm.completion(**OPENAI, **body, stream=True))
    for answer in (litellm.completion(**OPENAI, **body), litellm.stream_chunk_builder(chunks)):
        (call,) = answer.choices[0].message.tool_calls
        assert call.function.name == "get_weather"
        assert json.loads(call.function.arguments)["city"] in CITIES


def test_an_answer_keeps_to_its_schema() -> None:
    schema = WEATHER_TOOL["function"]["parameters"]
    form = {"type": "json_schema", "json_schema": {"name": "place", "strict": True, "schema": schema}}
    answer = litellm.completion(**OPENAI, **{**GREEDY, "max_tokens": 60}, response_format=form)
    assert json.loads(answer.choices[0].message.content)["city"] in CITIES


def test_text_completion() -> None:
    options = {**OPENAI, "model": f"text-completion-openai/{MODEL}"}
    answer = litellm.text_completion(**options, prompt="One, two, three,", max_tokens=8, temperature=0)
    assert answer.choices[0].text


def test_as_anthropic() -> None:
    answer = litellm.completion(model=f"anthropic/{MODEL}", api_base=URL, api_key="none", **GREEDY)
    assert answer.choices[0].message.content == ANSWER


def test_a_bad_parameter_is_a_bad_request() -> None:
    with pytest.raises(litellm.BadRequestError) as raised:
        litellm.completion(**OPENAI, **GREEDY, top_p=7)
    assert "top_p" in str(raised.value)
