"""Completions: prompts of every kind, echo, and the events of a stream."""

from typing import Any

import pytest

from srt.engine_client import TextPrompt, TokenPrompt
from srt.sampling.params import SamplingParams
from tests.fakes.engine_client import LENGTH, STOP, FakeEngineClient, chunk
from tests.fakes.http_world import error_of, events_of, post, serving

pytestmark = pytest.mark.anyio

PATH = "/v1/completions"
ONE = [[chunk("x")], [chunk("y", finish=LENGTH)]]
TWO = [[chunk("x", index=1), chunk("y", finish=STOP)], [chunk("z", index=1, finish=LENGTH)]]


@pytest.mark.parametrize(
    ("prompt", "prompts"),
    [
        ("ab", [TextPrompt("ab")]),
        ("", [TextPrompt("")]),
        (["ab"], [TextPrompt("ab")]),
        (["ab", "c"], [TextPrompt("ab"), TextPrompt("c")]),
        ([97, 98], [TokenPrompt([97, 98])]),
        ([[97, 98], [99]], [TokenPrompt([97, 98]), TokenPrompt([99])]),
    ],
)
async def test_a_prompt_may_be_text_or_ids_one_or_several(prompt: Any, prompts: list[Any]) -> None:
    client = FakeEngineClient(TWO if len(prompts) == 2 else ONE)
    response = await post(client, PATH, {"prompt": prompt})
    assert response.status_code == 200, response.text
    assert client.requests[0].prompts == prompts
    assert len(response.json()["choices"]) == len(prompts)


@pytest.mark.parametrize(
    ("prompt", "param"),
    [
        ([], "prompt"),
        (["a", 5], "prompt"),
        ([5, [6]], "prompt"),
        ([[1, 2], [], [3]], "prompt[1]"),
        (["a", ""], "prompt[1]"),
        ([True], "prompt"),
        ([1.5], "prompt"),
        ([["a"]], "prompt"),
        ({}, "prompt"),
        (5, "prompt"),
        (None, "prompt"),
    ],
)
async def test_a_prompt_that_is_none_of_these_is_a_400(prompt: Any, param: str) -> None:
    client = FakeEngineClient()
    response = await post(client, PATH, {"prompt": prompt})
    assert response.status_code == 400
    assert error_of(response)["param"] == param
    assert client.requests == []


async def test_defaults_are_openais_not_the_checkpoints() -> None:
    client = FakeEngineClient(ONE)
    await post(client, PATH, {"prompt": "a", "max_tokens": None})
    assert client.requests[0].sampling == [SamplingParams(max_new_tokens=16)]


async def test_max_tokens_zero_only_reads_the_prompt() -> None:
    client = FakeEngineClient([[chunk(finish=LENGTH, completion_tokens=0)]])
    response = await post(client, PATH, {"prompt": "a", "max_tokens": 0, "echo": True})
    assert client.requests[0].sampling[0].max_new_tokens == 0
    assert response.json()["choices"][0]["text"] == "a"
    assert response.json()["usage"]["completion_tokens"] == 0


@pytest.mark.parametrize(
    "body",
    [
        {"suffix": "end"},
        {"best_of": 2},
        {"best_of": 1, "n": 2},
        {"logprobs": True},
        {"logprobs": -1},
        {"logprobs": 21},
        {"logprobs": 1_000_000},
        {"logprobs": "2"},
        {"stop_regex": "a+"},
        {"use_beam_search": True},
        {"return_token_ids": True, "stream": True},
        {"max_tokens": -1},
        {"min_tokens": 17},
    ],
)
async def test_what_is_not_served_or_not_possible_is_refused_by_name(body: dict[str, Any]) -> None:
    client = FakeEngineClient()
    response = await post(client, PATH, {"prompt": "a"} | body)
    assert response.status_code == 400
    assert error_of(response)["param"] == next(iter(body))


@pytest.mark.parametrize(
    "body",
    [
        {"suffix": "", "best_of": 1, "logprobs": None, "echo": False, "n": None},
        {"suffix": None, "best_of": None, "logprobs": False},
        {
            "stream": False,
            "echo": False,
            "no_stop_trim": False,
            "ignore_eos": False,
            "skip_special_tokens": True,
        },
        {"return_hidden_states": False, "user": "u", "something_new": {"a": 1}},
    ],
)
async def test_what_asks_for_nothing_is_fine(body: dict[str, Any]) -> None:
    response = await post(FakeEngineClient(ONE), PATH, {"prompt": "a"} | body)
    assert response.status_code == 200, response.text


async def test_choices_are_ordered_by_prompt_then_sample() -> None:
    script = [[chunk(str(i), index=i, finish=STOP) for i in (3, 1, 0, 2)]]
    response = await post(FakeEngineClient(script), PATH, {"prompt": ["a", "b"], "n": 2, "echo": True})
    body = response.json()
    assert [c["text"] for c in body["choices"]] == ["a0", "a1", "b2", "b3"]
    assert [c["index"] for c in body["choices"]] == [0, 1, 2, 3]
    assert body["usage"] == {
        "prompt_tokens": 10,  # once a prompt
        "completion_tokens": 4,
        "total_tokens": 14,
        "prompt_tokens_details": {"cached_tokens": 4},
    }


@pytest.mark.parametrize("is_stream", [False, True])
@pytest.mark.parametrize("prompt", ["ab", [97, 98]])
async def test_echo_puts_the_prompt_before_the_answer(prompt: Any, is_stream: bool) -> None:
    async with serving(FakeEngineClient(ONE)) as world, world.openai() as openai:
        if is_stream:
            chunks = await openai.completions.create(model="m", prompt=prompt, echo=True, stream=True)
            text = "".join([c.choices[0].text async for c in chunks])
        else:
            text = (await openai.completions.create(model="m", prompt=prompt, echo=True)).choices[0].text
    assert text == "abxy"


async def test_echoed_ids_out_of_the_vocabulary_are_a_400() -> None:
    response = await post(FakeEngineClient(), PATH, {"prompt": [1, 999_999], "echo": True, "stream": True})
    assert response.status_code == 400


async def test_a_streams_events() -> None:
    script = [[chunk()], [chunk("a")], [chunk()], [chunk("b", finish=LENGTH)]]
    options = {"stream": True, "stream_options": {"include_usage": True}}
    response = await post(FakeEngineClient(script), PATH, {"prompt": "p"} | options)
    *chunks, usage, done = events_of(response.text)
    assert [c["choices"][0] for c in chunks] == [
        {"index": 0, "text": "a", "logprobs": None, "finish_reason": None},
        {"index": 0, "text": "b", "logprobs": None, "finish_reason": None},
        {"index": 0, "text": "", "logprobs": None, "finish_reason": "length", "matched_stop": None},
    ]
    assert [c["usage"] for c in chunks] == [None, None, None]
    assert {c["object"] for c in chunks} == {"text_completion"}
    assert usage["choices"] == []
    assert usage["usage"]["total_tokens"] == 6
    assert done == "[DONE]"


async def test_two_streamed_prompts_keep_apart() -> None:
    response = await post(FakeEngineClient(TWO), PATH, {"prompt": ["a", "b"], "stream": True, "echo": True})
    *chunks, _ = events_of(response.text)
    texts = ["", ""]
    for c in chunks:
        texts[c["choices"][0]["index"]] += c["choices"][0]["text"]
    assert texts == ["ay", "bxz"]


async def test_usage_can_be_counted_in_every_event() -> None:
    options = {"include_usage": True, "continuous_usage_stats": True}
    body = {"prompt": "p", "stream": True, "stream_options": options}
    response = await post(FakeEngineClient(ONE), PATH, body)
    *chunks, _, _ = events_of(response.text)
    assert [c["usage"]["completion_tokens"] for c in chunks] == [1, 1, 1]
