"""/v1/messages as Anthropic's own client sees it."""

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anthropic
import httpx
import msgspec
import pytest
from anthropic import AsyncAnthropic

from srt.engine_client import FinishReason, GenerateChunk, GenerateRequest, ModelInfo
from srt.errors import ContextLengthExceeded, QueueFull, ServerNotReady
from srt.server_args.server_args import ServerArgs
from tests.fakes.engine_client import LENGTH, MODEL_INFO, STOP, FakeEngineClient, FakeGeneration, chunk
from tests.fakes.http_world import ask, post, serving

pytestmark = pytest.mark.anyio

PATH = "/v1/messages"
HELLO: dict[str, Any] = {"model": "m", "max_tokens": 20, "messages": [{"role": "user", "content": "hi"}]}
TOOL = {"name": "look", "input_schema": {"type": "object", "properties": {"at": {"type": "string"}}}}
MODEL = msgspec.structs.replace(MODEL_INFO, tool_call_parser="hermes", reasoning_parser="qwen3")
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
async def talking(client: FakeEngineClient, args: ServerArgs | None = None) -> AsyncIterator[AsyncAnthropic]:
    """Anthropic's client to a server of ours."""
    async with (
        serving(client, args) as world,
        AsyncAnthropic(base_url=world.url, api_key="s3cret", max_retries=0) as official,
    ):
        yield official


async def ask_both(
    answer: Sequence[Sequence[GenerateChunk]], *, model: ModelInfo = MODEL, **body: Any
) -> Any:
    """The whole answer, after a look whether a stream of it says the same."""
    client = FakeEngineClient(answer, answer, model_info=model)
    async with talking(client) as official:
        whole = await official.messages.create(**HELLO, **body)
        async with official.messages.stream(**HELLO, **body) as stream:
            streamed = await stream.get_final_message()
    assert without_ids(streamed) == without_ids(whole)
    return whole


def without_ids(message: Any) -> dict[str, Any]:
    said: dict[str, Any] = message.to_dict()
    for block in said["content"]:
        block.pop("id", None)
        block.pop("parsed_output", None)
    return {
        name: said[name] for name in ("content", "stop_reason", "stop_sequence", "usage", "model", "role")
    }


async def test_plain_text_whole_and_streamed() -> None:
    text = 'Grüße, 世界! "quoted" \\ \n\x00'
    message = await ask_both(spoken(text), model=MODEL_INFO)
    assert [block.to_dict() for block in message.content] == [{"type": "text", "text": text}]
    assert message.id.startswith("msg_")
    assert message.stop_reason == "end_turn"
    assert message.usage.input_tokens == 3
    assert message.usage.cache_read_input_tokens == 2
    assert message.usage.output_tokens == len(text)


@pytest.mark.parametrize("size", [1, 3, 1000])
async def test_thoughts_text_and_calls_whole_and_streamed(size: int) -> None:
    message = await ask_both(spoken(ROUND, size=size), tools=[TOOL])
    thinking, text, first, second = message.content
    assert (thinking.type, thinking.thinking.strip()) == ("thinking", "look first")
    assert (text.type, text.text.strip()) == ("text", "I look.")
    assert (first.name, first.input) == ("look", {"at": "\U0001f600"})
    assert (second.name, second.input) == ("look", {})
    assert first.id.startswith("toolu_")
    assert first.id != second.id
    assert message.stop_reason == "tool_use"


async def test_thoughts_may_be_left_out() -> None:
    thinking = {"type": "enabled", "budget_tokens": 10, "display": "omitted"}
    message = await ask_both(spoken("<think>\nhm\n</think>\n\nyes"), thinking=thinking)
    assert [block.type for block in message.content] == ["thinking", "text"]
    assert message.content[0].thinking == ""


@pytest.mark.parametrize(
    ("finish", "num_chars", "reason", "sequence"),
    [
        (STOP, 3, "end_turn", None),
        (FinishReason(type="stop", matched=2), 3, "end_turn", None),
        (FinishReason(type="stop", matched="END"), 3, "stop_sequence", "END"),
        (LENGTH, 20, "max_tokens", None),
        (LENGTH, 19, "model_context_window_exceeded", None),
        (FinishReason(type="abort", message="aborted"), 3, "end_turn", None),
    ],
)
async def test_why_it_ended(finish: FinishReason, num_chars: int, reason: str, sequence: str | None) -> None:
    message = await ask_both(spoken("x" * num_chars, finish))
    assert (message.stop_reason, message.stop_sequence) == (reason, sequence)


async def test_a_call_that_was_cut_off_has_no_input_yet() -> None:
    message = await ask_both(spoken('<tool_call>\n{"name": "look", "arguments": {"at": "x', LENGTH, size=9))
    assert message.stop_reason in ("max_tokens", "model_context_window_exceeded")


async def test_the_events_of_a_stream_in_their_order() -> None:
    client = FakeEngineClient(spoken("<think>\nhm\n</think>\n\nyes", size=40), model_info=MODEL)
    response = await post(client, PATH, HELLO | {"stream": True})
    assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
    events = [event.split("\n") for event in response.text.removesuffix("\n\n").split("\n\n")]
    names = [name.removeprefix("event: ") for name, _ in events]
    datas = [json.loads(data.removeprefix("data: ")) for _, data in events]
    assert [data["type"] for data in datas] == names
    block = ["content_block_start", "content_block_delta", "content_block_stop"]
    assert names == ["message_start", *block, *block, "message_delta", "message_stop"]
    assert [data["index"] for data in datas if "index" in data] == [0, 0, 0, 1, 1, 1]
    assert datas[0]["message"]["content"] == []
    assert datas[0]["message"]["usage"]["output_tokens"] == 0


async def test_an_answer_may_be_longer_than_the_context_has_room_for() -> None:
    class ShortEngine(FakeEngineClient):
        async def generate(self, request: GenerateRequest) -> FakeGeneration:
            if request.sampling[0].max_new_tokens is not None:
                raise ContextLengthExceeded("too long", param="max_tokens")
            return await super().generate(request)

    client = ShortEngine(spoken("yes", LENGTH))
    response = await post(client, PATH, HELLO)
    assert response.json()["stop_reason"] == "model_context_window_exceeded"


async def test_count_tokens_counts_the_prompt() -> None:
    client = FakeEngineClient()
    async with talking(client) as official:
        counted = await official.messages.count_tokens(
            model="m", system="abc", messages=[{"role": "user", "content": "de"}]
        )
    assert counted.input_tokens == 5
    assert client.requests == []


async def test_the_key_as_the_client_sends_it() -> None:
    async with talking(FakeEngineClient(spoken("yes")), ServerArgs(api_key="s3cret")) as official:
        assert (await official.messages.create(**HELLO)).content


@pytest.mark.parametrize(
    ("refusal", "kind", "error_type"),
    [
        (ContextLengthExceeded("too long"), anthropic.BadRequestError, "invalid_request_error"),
        (QueueFull("full"), anthropic.APIStatusError, "overloaded_error"),
        (ValueError("a bug"), anthropic.InternalServerError, "api_error"),
    ],
)
async def test_an_error_is_one_of_the_clients_own(
    refusal: Exception, kind: type[anthropic.APIStatusError], error_type: str
) -> None:
    client = FakeEngineClient()
    client.refusal = refusal
    async with talking(client) as official:
        with pytest.raises(kind) as raised:
            await official.messages.create(**HELLO)
    assert isinstance(raised.value.body, dict)
    assert raised.value.body["type"] == "error"
    assert raised.value.body["error"]["type"] == error_type


async def test_an_error_in_mid_stream_is_its_last_event() -> None:
    client = FakeEngineClient([[chunk("a")], ServerNotReady("a process died")])
    async with talking(client) as official:
        with pytest.raises(anthropic.APIStatusError, match="a process died"):
            async with official.messages.stream(**HELLO) as stream:
                await stream.get_final_message()
    assert client.generations[0].is_aborted


def error_of(response: httpx.Response) -> dict[str, Any]:
    body = response.json()
    assert set(body) == {"type", "error"}
    assert body["type"] == "error"
    assert set(body["error"]) == {"type", "message"}
    error: dict[str, Any] = body["error"]
    return error


@pytest.mark.parametrize(
    ("method", "path", "status", "error_type"),
    [
        ("GET", PATH, 405, "invalid_request_error"),
        ("POST", f"{PATH}/batches", 404, "not_found_error"),
        ("POST", f"{PATH}/count_tokens", 400, "invalid_request_error"),
    ],
)
async def test_every_path_below_has_this_shape(method: str, path: str, status: int, error_type: str) -> None:
    response = await ask(FakeEngineClient(), method, path)
    assert response.status_code == status
    assert error_of(response)["type"] == error_type


async def test_a_wrong_key_and_a_long_body_have_this_shape() -> None:
    args = ServerArgs(api_key="s3cret", max_body_bytes=10)
    refused = await post(FakeEngineClient(), PATH, HELLO, args=args)
    assert error_of(refused)["type"] == "authentication_error"
    too_long = await post(FakeEngineClient(), PATH, HELLO, args=args, headers={"x-api-key": "s3cret"})
    assert (too_long.status_code, error_of(too_long)["type"]) == (413, "request_too_large")


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"max_tokens": None}, "max_tokens"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"model": None}, "model"),
        ({"stop_sequences": [""]}, "stop_sequences"),
        ({"top_p": 2}, "top_p"),
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "robot", "content": "x"}]}, "messages[0].role"),
        ({"tools": [{**TOOL, "name": "?"}]}, "tools[0]"),
        ({"tool_choice": {"type": "any"}}, "tool_choice"),
        ({"priority": 2**40}, "priority"),
    ],
)
async def test_a_refusal_names_the_field_in_anthropics_words(change: dict[str, Any], name: str) -> None:
    response = await post(FakeEngineClient(), PATH, HELLO | change)
    assert response.status_code == 400
    assert name in error_of(response)["message"]
