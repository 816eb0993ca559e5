"""A chat completion as the client gets it, whole and streamed."""

from typing import Any

import pytest
from openai import APIError, APIStatusError, InternalServerError

import srt
from srt.engine_client import FinishReason, GenerateChunk
from srt.errors import QueueFull, ServerNotReady
from tests.fakes.engine_client import LENGTH, STOP, FakeEngineClient, chunk
from tests.fakes.http_world import CHAT, events_of, post, serving

pytestmark = pytest.mark.anyio

PATH = "/v1/chat/completions"
TEXT = 'Grüße, 世界! \U0001f600 "quoted" \\ \n\t\x00 �'


async def stream(client: FakeEngineClient, body: dict[str, Any] | None = None) -> list[Any]:
    response = await post(client, PATH, CHAT | {"stream": True} | (body or {}))
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
    return events_of(response.text)


def letters(text: str, finish: FinishReason = STOP) -> list[list[GenerateChunk]]:
    """One wake-up a character, the last of which also finishes."""
    chunks = [chunk(letter, completion_tokens=i + 1) for i, letter in enumerate(text)]
    return [*([c] for c in chunks), [chunk(finish=finish, completion_tokens=len(text))]]


async def test_a_whole_answer() -> None:
    client = FakeEngineClient(letters(TEXT, FinishReason(type="stop", matched="END")))
    response = await post(client, PATH, CHAT | {"model": "any"})
    body = response.json()
    assert body.pop("created") > 0
    assert body.pop("id").startswith("chatcmpl-")
    assert body == {
        "object": "chat.completion",
        "model": "any",
        "system_fingerprint": f"lockstep-{srt.__version__}",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": TEXT},
                "logprobs": None,
                "finish_reason": "stop",
                "matched_stop": "END",
            }
        ],
        "usage": {
            "prompt_tokens": 5,
            "completion_tokens": len(TEXT),
            "total_tokens": 5 + len(TEXT),
            "prompt_tokens_details": {"cached_tokens": 2},
        },
    }


@pytest.mark.parametrize("model", [None, ""])
async def test_without_a_model_the_answer_names_the_served_one(model: str | None) -> None:
    response = await post(FakeEngineClient(letters("a")), PATH, CHAT | {"model": model})
    assert response.json()["model"] == "tiny"


async def test_a_stream_has_its_role_first_its_reason_last_and_nothing_empty_between() -> None:
    client = FakeEngineClient([[chunk()], [chunk("a")], [chunk()], [chunk("b", finish=LENGTH)]])
    *chunks, done = await stream(client)
    assert done == "[DONE]"
    assert [c["choices"][0] for c in chunks] == [
        {"index": 0, "delta": {"role": "assistant", "content": ""}, "logprobs": None, "finish_reason": None},
        {"index": 0, "delta": {"content": "a"}, "logprobs": None, "finish_reason": None},
        {"index": 0, "delta": {"content": "b"}, "logprobs": None, "finish_reason": None},
        {"index": 0, "delta": {}, "logprobs": None, "finish_reason": "length", "matched_stop": None},
    ]
    assert len({(c["id"], c["created"], c["model"], c["object"]) for c in chunks}) == 1
    assert not [c for c in chunks if "usage" in c]


async def test_a_choice_that_says_nothing_has_a_role_and_a_reason() -> None:
    *chunks, _ = await stream(FakeEngineClient([[chunk(finish=STOP)]]))
    assert [c["choices"][0]["delta"] for c in chunks] == [{"role": "assistant", "content": ""}, {}]


async def test_usage_comes_last_and_is_null_before() -> None:
    *chunks, usage, _ = await stream(
        FakeEngineClient(letters("ab")), {"stream_options": {"include_usage": True}}
    )
    assert [c["usage"] for c in chunks] == [None] * 4
    assert usage["choices"] == []
    assert usage["usage"] == {
        "prompt_tokens": 5,
        "completion_tokens": 2,
        "total_tokens": 7,
        "prompt_tokens_details": {"cached_tokens": 2},
    }


async def test_usage_can_be_counted_in_every_event() -> None:
    options = {"include_usage": True, "continuous_usage_stats": True}
    *chunks, usage, _ = await stream(FakeEngineClient(letters("ab")), {"stream_options": options})
    assert [c["usage"]["completion_tokens"] for c in chunks] == [1, 1, 2, 2]
    assert usage["usage"]["completion_tokens"] == 2


@pytest.mark.parametrize("name", ['"content":""', '\\"content\\":""', "x\n\ndata: [DONE]", "ü😀"])
async def test_a_strange_model_name_does_not_break_the_events(name: str) -> None:
    *chunks, done = await stream(FakeEngineClient(letters(TEXT)), {"model": name})
    assert {c["model"] for c in chunks} == {name}
    assert "".join(c["choices"][0]["delta"].get("content", "") for c in chunks) == TEXT
    assert done == "[DONE]"


async def test_what_arrives_together_is_sent_together() -> None:
    client = FakeEngineClient()
    async with serving(client) as world, world.connection() as connection:
        connection.post(PATH, CHAT | {"stream": True, "n": 2})
        generation = await client.next_generation()
        generation.push(chunk("a"), chunk("b", index=1))
        await connection.read_until(b"\r\n\r\n")
        size = int(await connection.read_until(b"\r\n"), 16)
        events = events_of((await connection.reader.readexactly(size)).decode())
    assert [c["choices"][0]["delta"]["content"] for c in events] == ["", "a", "", "b"]


async def test_the_official_client_reads_a_stream() -> None:
    async with serving(FakeEngineClient(letters(TEXT))) as world, world.openai() as openai:
        chunks = [
            c
            async for c in await openai.chat.completions.create(
                model="m", messages=CHAT["messages"], stream=True, stream_options={"include_usage": True}
            )
        ]
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == TEXT
    assert chunks[0].choices[0].delta.role == "assistant"
    assert [c.choices[0].finish_reason for c in chunks if c.choices and c.choices[0].finish_reason] == [
        "stop"
    ]
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens == len(TEXT)


async def test_the_official_client_reads_a_whole_answer() -> None:
    async with serving(FakeEngineClient(letters(TEXT))) as world, world.openai() as openai:
        answer = await openai.chat.completions.create(model="m", messages=CHAT["messages"])
    assert answer.choices[0].message.content == TEXT
    assert answer.usage is not None
    assert answer.usage.prompt_tokens_details is not None
    assert answer.usage.prompt_tokens_details.cached_tokens == 2


@pytest.mark.parametrize("is_stream", [False, True])
async def test_choices_keep_apart_and_the_prompt_is_counted_once(is_stream: bool) -> None:
    script = [
        [chunk("a", index=2), chunk("b", index=0)],
        [chunk("c", index=1, finish=STOP), chunk("d", index=0, finish=LENGTH)],
        [chunk("e", index=2, finish=STOP, completion_tokens=4)],
    ]
    async with serving(FakeEngineClient(script)) as world, world.openai() as openai:
        texts, reasons, usage = ["", "", ""], [""] * 3, None
        if is_stream:
            async for c in await openai.chat.completions.create(
                model="m", messages=CHAT["messages"], n=3, stream=True, stream_options={"include_usage": True}
            ):
                usage = c.usage or usage
                for choice in c.choices:
                    texts[choice.index] += choice.delta.content or ""
                    reasons[choice.index] += choice.finish_reason or ""
        else:
            answer = await openai.chat.completions.create(model="m", messages=CHAT["messages"], n=3)
            texts = [choice.message.content or "" for choice in answer.choices]
            reasons = [choice.finish_reason for choice in answer.choices]
            usage = answer.usage
    assert texts == ["bd", "c", "ae"]
    assert reasons == ["length", "stop", "stop"]
    assert usage is not None
    assert (usage.prompt_tokens, usage.completion_tokens) == (5, 6)


async def test_the_official_client_sees_an_error_in_mid_stream() -> None:
    client = FakeEngineClient([[chunk("a")], ServerNotReady("a process died")])
    async with serving(client) as world, world.openai() as openai:
        chunks = await openai.chat.completions.create(model="m", messages=CHAT["messages"], stream=True)
        with pytest.raises(APIError, match="a process died"):
            async for _ in chunks:
                pass


async def test_the_official_client_sees_a_full_queue() -> None:
    client = FakeEngineClient()
    client.refusal = QueueFull("full")
    async with serving(client) as world, world.openai() as openai:
        with pytest.raises(InternalServerError) as raised:
            await openai.chat.completions.create(model="m", messages=CHAT["messages"], stream=True)
    assert raised.value.status_code == 503
    assert raised.value.code == "queue_full"


async def test_the_official_client_sees_which_field_is_wrong() -> None:
    async with serving(FakeEngineClient()) as world, world.openai() as openai:
        with pytest.raises(APIStatusError) as raised:
            await openai.chat.completions.create(model="m", messages=CHAT["messages"], temperature=-1)
    assert raised.value.status_code == 400
    assert raised.value.param == "temperature"  # type: ignore[attr-defined]


@pytest.mark.parametrize("is_stream", [False, True])
async def test_a_request_aborted_by_rid_ends_with_its_reason(is_stream: bool) -> None:
    aborted = FinishReason(type="abort", message="aborted by request")
    client = FakeEngineClient([[chunk("a")], [chunk(finish=aborted)]])
    if is_stream:
        *_, last, _ = await stream(client)
        assert last["choices"][0]["finish_reason"] == "abort"
    else:
        response = await post(client, PATH, CHAT)
        assert response.json()["choices"][0]["finish_reason"] == "abort"


async def test_fifty_streams_at_once_all_end() -> None:
    texts = [f"answer {i}" for i in range(50)]
    client = FakeEngineClient(*(letters(text) for text in texts))
    seen = []
    async with serving(client) as world, world.openai() as openai:
        streams = [
            await openai.chat.completions.create(model="m", messages=CHAT["messages"], stream=True)
            for _ in texts
        ]
        for chunks in streams:
            seen.append("".join([c.choices[0].delta.content or "" async for c in chunks]))
    assert seen == texts
