"""LangChain's ChatOpenAI and OpenAI against a server of ours."""

import asyncio
from typing import Literal

import openai
import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI, OpenAI
from pydantic import BaseModel
from served import CITIES, MAX_TOKENS, QUESTION, URL, greedy_answer, model_name

MODEL = model_name()
ANSWER = greedy_answer()
chat = ChatOpenAI(
    model=MODEL,
    base_url=f"{URL}/v1",
    api_key="none",
    temperature=0,
    max_tokens=MAX_TOKENS,
    max_retries=0,
    stream_usage=True,  # it asks for usage by itself only where it takes the server for OpenAI's
)


@tool
def get_weather(city: Literal["Kyiv", "Lima"]) -> str:
    """The weather in a city."""
    return f"sunny in {city}"


class Verdict(BaseModel):
    """What is thought of something."""

    colour: Literal["red", "green"]
    is_sure: bool


def test_invoke() -> None:
    answer = chat.invoke(QUESTION)
    assert answer.content == ANSWER
    assert answer.usage_metadata["output_tokens"] <= MAX_TOKENS
    assert answer.response_metadata["finish_reason"] in ("stop", "length")


def test_stream_joins_to_the_same() -> None:
    whole = None
    for piece in chat.stream(QUESTION):
        whole = piece if whole is None else whole + piece
    assert whole is not None
    assert whole.content == ANSWER
    assert whole.usage_metadata["total_tokens"] > 0


def test_asynchronous_stream() -> None:
    async def collect() -> str:
        return "".join([str(piece.content) async for piece in chat.astream(QUESTION)])

    assert asyncio.run(collect()) == ANSWER


def test_batch_keeps_the_order() -> None:
    first, second = chat.batch([QUESTION, [SystemMessage("Be brief."), HumanMessage(QUESTION)]])
    assert first.content == ANSWER
    assert second.content


def test_stop_strings() -> None:
    stop = ANSWER[8:11]
    assert chat.invoke(QUESTION, stop=[stop]).content == ANSWER[: ANSWER.index(stop)]


def test_log_probabilities() -> None:
    answer = chat.bind(logprobs=True, top_logprobs=2).invoke(QUESTION)
    assert "".join(token["token"] for token in answer.response_metadata["logprobs"]["content"]) == ANSWER


def test_a_required_tool_is_called_and_its_result_taken() -> None:
    bound = chat.bind_tools([get_weather], tool_choice="required", strict=True, parallel_tool_calls=False)
    answer = bound.invoke("How is the weather?", max_tokens=60)
    (call,) = answer.tool_calls
    assert (call["name"], call["args"]["city"] in CITIES) == ("get_weather", True)
    result = get_weather.invoke(call)
    assert isinstance(result, ToolMessage)
    assert isinstance(chat.invoke([HumanMessage("How is it?"), answer, result]), AIMessage)


def test_a_streamed_tool_call() -> None:
    bound = chat.bind_tools([get_weather], tool_choice="get_weather", parallel_tool_calls=False)
    whole = None
    for piece in bound.stream("How is the weather?", max_tokens=60):
        whole = piece if whole is None else whole + piece
    assert whole is not None
    (call,) = whole.tool_calls
    assert call["args"]["city"] in CITIES


def test_structured_output_by_schema_and_by_call() -> None:
    for method in ("json_schema", "function_calling"):
        structured = chat.with_structured_output(Verdict, method=method)
        assert isinstance(structured.invoke("What do you think?", max_tokens=60), Verdict)


def test_responses_api() -> None:
    responses = ChatOpenAI(
        model=MODEL,
        base_url=f"{URL}/v1",
        api_key="none",
        temperature=0,
        max_tokens=MAX_TOKENS,
        use_responses_api=True,
    )
    assert responses.invoke(QUESTION).text == ANSWER
    assert "".join(piece.text for piece in responses.stream(QUESTION)) == ANSWER


def test_completions() -> None:
    llm = OpenAI(model=MODEL, base_url=f"{URL}/v1", api_key="none", temperature=0, max_tokens=8)
    whole = llm.invoke("One, two, three,")
    assert whole
    assert "".join(llm.stream("One, two, three,")) == whole


def test_a_bad_parameter_is_an_error_that_names_it() -> None:
    with pytest.raises(openai.BadRequestError) as raised:
        chat.invoke(QUESTION, top_p=7)
    assert raised.value.param == "top_p"
