"""/v1/responses as OpenAI's own client sees it."""

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import openai
import pytest
from openai import AsyncOpenAI

from srt.engine_client import FinishReason, GenerateChunk, ModelInfo
from srt.errors import ContextLengthExceeded, ServerNotReady
from tests.fakes.engine_client import LENGTH, MODEL_INFO, STOP, FakeEngineClient, chunk
from tests.fakes.http_world import error_of, post, serving
from tests.fakes.told_chunks import told

pytestmark = pytest.mark.anyio

PATH = "/v1/responses"
MODEL = msgspec.structs.replace(MODEL_INFO, tool_call_parser="hermes", reasoning_parser="qwen3")
TOOL = {
    "type": "function",
    "name": "look",
    "parameters": {"type": "object", "properties": {}},
    "strict": False,
}
ROUND = (
    "<think>\nlook first\n</think>\n\nI look. "
    '<tool_call>\n{"name": "look", "arguments": {"at": "\U0001f600"}}\n</tool_call>\n'
    '<tool_call>\n{"name": "look", "arguments": {}}\n</tool_call>'
)


def spoken(text: str, finish: FinishReason = STOP, *, size: int = 1) -> list[list[GenerateChunk]]:
    """A wake-up for every `size` characters, the last of which also finishes."""
    pieces = [text[i : i + size] for i in range(0, len(text), size)]
    chunks = [chunk(piece, completion_tokens=i + 1) for i, piece in enumerate(pieces)]
    return [*([c] for c in chunks), [chunk(finish=finish, completion_tokens=len(pieces))]]


@asynccontextmanager
async def talking(client: FakeEngineClient) -> AsyncIterator[AsyncOpenAI]:
    async with serving(client) as world, world.openai() as official:
        yield official


async def ask_both(
    answer: Sequence[Sequence[GenerateChunk]], *, model: ModelInfo = MODEL, **body: Any
) -> Any:
    """The whole response, after a look whether a stream's last event says the same."""
    client = FakeEngineClient(answer, answer, model_info=model)
    async with talking(client) as official:
        whole = await official.responses.create(model="m", input="hi", **body)
        stream = await official.responses.create(model="m", input="hi", stream=True, **body)
        events = [event async for event in stream]
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert without_ids(events[-1].response) == without_ids(whole)
    return whole


def without_ids(response: Any) -> dict[str, Any]:
    said: dict[str, Any] = response.to_dict()
    for item in said["output"]:
        item.pop("id")
        item.pop("call_id", None)
    for name in ("id", "created_at", "completed_at"):
        said.pop(name)
    return said


async def test_plain_text_whole_and_streamed() -> None:
    text = 'Grüße, 世界! "quoted" \\ \n\x00'
    response = await ask_both(spoken(text), model=MODEL_INFO, metadata={"a": "b"}, instructions="Be brief.")
    assert response.output_text == text
    assert response.status == "completed"
    assert response.id.startswith("resp_")
    assert (response.store, response.metadata, response.instructions) == (False, {"a": "b"}, "Be brief.")
    assert (response.temperature, response.top_p) == (0.6, 0.9)
    assert response.usage.input_tokens == 5
    assert response.usage.input_tokens_details.cached_tokens == 2
    assert response.usage.output_tokens == len(text)


async def test_what_each_token_was_worth_whole_and_streamed() -> None:
    answer = [[told("h", num_top=1)], [told("i", num_top=1)], [told("!", num_top=1, finish=STOP)]]
    asked: Any = {"include": ["message.output_text.logprobs"], "top_logprobs": 1}
    response = await ask_both(answer, model=MODEL_INFO, **asked)
    (message,) = response.output
    (text,) = message.content
    assert [(token.token, token.logprob) for token in text.logprobs] == [
        ("h", -104.0),
        ("i", -105.0),
        ("!", -33.0),
    ]
    assert [token.top_logprobs[0].token for token in text.logprobs] == ["a"] * 3
    assert response.top_logprobs == 1
    client = FakeEngineClient(answer, model_info=MODEL_INFO)
    async with talking(client) as official:
        stream = await official.responses.create(model="m", input="hi", stream=True, **asked)
        deltas = [event async for event in stream if event.type == "response.output_text.delta"]
    assert [(event.delta, event.logprobs[0].token) for event in deltas] == [
        ("h", "h"),
        ("i", "i"),
        ("!", "!"),
    ]


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"include": ["message.output_text.logprobs"]}, "include"),
        ({"top_logprobs": 2}, "top_logprobs"),
        ({"top_logprobs": 21}, "top_logprobs"),
    ],
)
async def test_which_tokens_are_thoughts_is_not_told(body: dict[str, Any], param: str) -> None:
    client = FakeEngineClient(model_info=MODEL)
    response = await post(client, PATH, {"input": "hi", **body})
    assert (response.status_code, error_of(response)["param"]) == (400, param)
    assert client.requests == []


@pytest.mark.parametrize("size", [1, 3, 1000])
async def test_thoughts_text_and_calls_whole_and_streamed(size: int) -> None:
    response = await ask_both(spoken(ROUND, size=size), tools=[TOOL])
    thoughts, message, first, second = response.output
    assert thoughts.content[0].text.strip() == "look first"
    assert message.content[0].text.strip() == "I look."
    assert (first.type, first.name, json.loads(first.arguments)) == (
        "function_call",
        "look",
        {"at": "\U0001f600"},
    )
    assert json.loads(second.arguments) == {}
    assert first.call_id != second.call_id
    assert {item.status for item in response.output} == {"completed"}
    assert response.usage.output_tokens_details.reasoning_tokens > 0


async def test_the_clients_own_stream_puts_it_together() -> None:
    client = FakeEngineClient(spoken(ROUND, size=5), model_info=MODEL)
    async with (
        talking(client) as official,
        official.responses.stream(model="m", input="hi", tools=[TOOL]) as stream,  # type: ignore[list-item]
    ):
        events = [event async for event in stream]
        final = await stream.get_final_response()
    deltas = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    assert final.output_text == deltas
    calls = [item for item in final.output if item.type == "function_call"]
    assert [call.name for call in calls] == ["look", "look"]


async def test_the_events_of_a_stream_in_their_order() -> None:
    client = FakeEngineClient(spoken("<think>\nhm\n</think>\n\nyes", size=40), model_info=MODEL)
    response = await post(client, PATH, {"input": "hi", "stream": True})
    events = [event.split("\n") for event in response.text.removesuffix("\n\n").split("\n\n")]
    names = [name.removeprefix("event: ") for name, _ in events]
    datas = [json.loads(data.removeprefix("data: ")) for _, data in events]
    assert [data["type"] for data in datas] == names

    def item(kind: str) -> list[str]:
        inner = ["content_part.added", f"{kind}.delta", f"{kind}.done", "content_part.done"]
        return [f"response.{name}" for name in ("output_item.added", *inner, "output_item.done")]

    assert names == [
        "response.created",
        "response.in_progress",
        *item("reasoning_text"),
        *item("output_text"),
        "response.completed",
    ]
    assert [data["output_index"] for data in datas[2:-1]] == [0] * 6 + [1] * 6


@pytest.mark.parametrize(
    ("finish", "status", "last_event"),
    [
        (STOP, "completed", "response.completed"),
        (LENGTH, "incomplete", "response.incomplete"),
        (FinishReason(type="abort", message="aborted"), "cancelled", "response.incomplete"),
    ],
)
async def test_how_it_ended(finish: FinishReason, status: str, last_event: str) -> None:
    response = await ask_both(spoken("yes", finish))
    assert response.status == status
    assert (response.incomplete_details is not None) == (status == "incomplete")
    streamed = await post(FakeEngineClient(spoken("yes", finish)), PATH, {"input": "hi", "stream": True})
    assert streamed.text.rpartition("event: ")[2].startswith(last_event + "\n")


async def test_an_error_in_mid_stream_is_a_failed_response() -> None:
    client = FakeEngineClient([[chunk("a")], ServerNotReady("a process died")])
    async with talking(client) as official:
        stream = await official.responses.create(model="m", input="hi", stream=True)
        events = [event async for event in stream]
    failed = events[-1]
    assert failed.type == "response.failed"
    assert failed.response.error is not None
    assert failed.response.error.message == "a process died"
    assert failed.sequence_number == len(events) - 1
    assert client.generations[0].is_aborted


async def test_an_error_before_the_first_event_is_a_status() -> None:
    client = FakeEngineClient([ServerNotReady("draining")])
    async with talking(client) as official:
        with pytest.raises(openai.InternalServerError):
            await official.responses.create(model="m", input="hi", stream=True)


async def test_refusals_of_the_engine_name_this_apis_fields() -> None:
    client = FakeEngineClient()
    client.refusal = ContextLengthExceeded("max_tokens is too much", param="max_tokens")
    response = await post(client, PATH, {"input": "hi"})
    assert error_of(response)["param"] == "max_output_tokens"
    assert error_of(response)["message"] == "max_output_tokens is too much"
