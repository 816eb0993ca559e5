"""The native endpoint: SGLang's fields in, SGLang's shapes out."""

from typing import Any

import pytest

from srt.engine_client import FinishReason, TextPrompt, TokenPrompt
from srt.sampling.params import SamplingParams
from srt.server_args.server_args import ServerArgs
from tests.fakes.engine_client import LENGTH, STOP, FakeEngineClient, chunk
from tests.fakes.http_world import ask, error_of, events_of, post

pytestmark = pytest.mark.anyio

PATH = "/generate"
ONE = [[chunk('x"')], [chunk("y", finish=LENGTH, completion_tokens=2)]]
META = {
    "id": "r1",
    "prompt_tokens": 5,
    "weight_version": "default",
    "num_retractions": 0,
    "cached_tokens": 2,
    "cached_tokens_details": {"device": 2, "host": 0},
    "reasoning_tokens": 0,
}


def batch(size: int) -> list[list[Any]]:
    return [[chunk(str(i), index=i, finish=STOP) for i in reversed(range(size))]]


async def param_of(body: dict[str, Any]) -> str | None:
    client = FakeEngineClient()
    response = await post(client, PATH, body)
    assert response.status_code == 400, response.text
    assert client.generations == []
    param: str | None = error_of(response)["param"]
    return param


@pytest.mark.parametrize("method", ["POST", "PUT"])
async def test_one_prompt_gets_one_object(method: str) -> None:
    response = await ask(FakeEngineClient(ONE), method, PATH, json={"text": "hi", "rid": "r1"})
    body = response.json()
    assert body["meta_info"].pop("e2e_latency") >= 0
    assert body == {
        "text": 'x"y',
        "output_ids": list(b'x"y'),
        "meta_info": {**META, "finish_reason": {"type": "length", "length": 2}, "completion_tokens": 2},
    }


@pytest.mark.parametrize(
    ("finish", "described"),
    [
        (FinishReason(type="stop", matched="END"), {"type": "stop", "matched": "END"}),
        (FinishReason(type="stop", matched=7), {"type": "stop", "matched": 7}),
        (
            FinishReason(type="abort", message="told to"),
            {"type": "abort", "message": "told to", "status_code": 200},
        ),
    ],
)
async def test_why_it_ended(finish: FinishReason, described: dict[str, Any]) -> None:
    response = await post(FakeEngineClient([[chunk("a", finish=finish)]]), PATH, {"text": "hi"})
    assert response.json()["meta_info"]["finish_reason"] == described


@pytest.mark.parametrize(
    ("body", "prompts"),
    [
        ({"text": ["a"]}, [TextPrompt("a")]),
        ({"text": ["a", "b"]}, [TextPrompt("a"), TextPrompt("b")]),
        ({"input_ids": [[1, 2]]}, [TokenPrompt([1, 2])]),
        ({"input_ids": [[1, 2], [3]]}, [TokenPrompt([1, 2]), TokenPrompt([3])]),
    ],
)
async def test_a_batch_gets_a_list_even_of_one(body: dict[str, Any], prompts: list[Any]) -> None:
    client = FakeEngineClient(batch(len(prompts)))
    response = await post(client, PATH, body)
    assert client.requests[0].prompts == prompts
    assert [answer["text"] for answer in response.json()] == [str(i) for i in range(len(prompts))]


async def test_several_samples_of_one_prompt_get_a_list() -> None:
    response = await post(FakeEngineClient(batch(2)), PATH, {"text": "a", "sampling_params": {"n": 2}})
    assert [answer["text"] for answer in response.json()] == ["0", "1"]


async def test_ids_alone_are_one_prompt() -> None:
    client = FakeEngineClient(ONE)
    response = await post(client, PATH, {"input_ids": [1, 2]})
    assert client.requests[0].prompts == [TokenPrompt([1, 2])]
    assert response.json()["text"] == 'x"y'


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (None, SamplingParams(max_new_tokens=128)),
        ({}, SamplingParams(max_new_tokens=128)),
        ({"max_new_tokens": None}, SamplingParams(max_new_tokens=None)),
        ({"max_new_tokens": 0}, SamplingParams(max_new_tokens=0)),
        (
            {"max_new_tokens": 4, "min_new_tokens": 2, "temperature": 0, "stop": "x", "sampling_seed": 3},
            SamplingParams(max_new_tokens=4, min_new_tokens=2, temperature=0.0, stop=("x",), seed=3),
        ),
        (
            {"stream_interval": 7, "spaces_between_special_tokens": False},
            SamplingParams(max_new_tokens=128, stream_interval=7),
        ),
    ],
)
async def test_sampling_params(given: Any, expected: SamplingParams) -> None:
    client = FakeEngineClient(ONE)
    response = await post(client, PATH, {"text": "a", "sampling_params": given})
    assert response.status_code == 200, response.text
    assert client.requests[0].sampling == [expected]


async def test_each_prompt_may_have_its_own_settings() -> None:
    client = FakeEngineClient(batch(2))
    settings = [{"temperature": 0}, {"temperature": 1, "max_new_tokens": 7}]
    await post(client, PATH, {"text": ["a", "b"], "sampling_params": settings})
    assert [s.temperature for s in client.requests[0].sampling] == [0.0, 1.0]
    assert [s.max_new_tokens for s in client.requests[0].sampling] == [128, 7]


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "text"),
        ({"text": None, "input_ids": None}, "text"),
        ({"text": "a", "input_ids": [1]}, "input_ids"),
        ({"input_ids": [[1, 2, 3], [], [4]]}, "input_ids[1]"),
        ({"input_ids": []}, "input_ids"),
        ({"input_ids": [1, [2]]}, "input_ids"),
        ({"input_ids": "abc"}, "input_ids"),
        ({"text": 5}, "text"),
        ({"text": "a", "stream": "true"}, "stream"),
        ({"text": "a", "stream": 1}, "stream"),
        ({"text": "a", "rid": ["x", "y"]}, "rid"),
        ({"text": ["a", "b"], "rid": ["x", "x"]}, "rid"),
        ({"text": ["a", "b"], "rid": ["x", "with space"]}, "rid"),
        ({"text": "a", "sampling_params": []}, "sampling_params"),
        ({"text": "a", "sampling_params": 5}, "sampling_params"),
        ({"text": ["a", "b"], "sampling_params": [{"n": 1}, {"n": 2}]}, "sampling_params"),
        ({"text": "a", "sampling_params": {"temprature": 1}}, "sampling_params.temprature"),
        ({"text": "a", "sampling_params": {"temperature": "hot"}}, "sampling_params.temperature"),
        ({"text": "a", "sampling_params": {"temperature": -1}}, "sampling_params.temperature"),
        ({"text": "a", "sampling_params": {"max_new_tokens": -1}}, "sampling_params.max_new_tokens"),
        ({"text": "a", "sampling_params": {"stop_token_ids": [-1]}}, "sampling_params.stop_token_ids"),
        ({"text": "a", "sampling_params": {"json_schema": "{}", "regex": "a"}}, "sampling_params.regex"),
        ({"text": "a", "sampling_params": {"stop_regex": "a+"}}, "sampling_params.stop_regex"),
        ({"text": "a", "sampling_params": {"stream_interval": 0}}, "sampling_params.stream_interval"),
        ({"text": "a", "token_ids_logprob": [-1]}, "token_ids_logprob"),
        ({"text": "a", "top_logprobs_num": 1_000_000}, "top_logprobs_num"),
        ({"text": "a", "image_data": "http://x"}, "image_data"),
        ({"text": "a", "return_hidden_states": "last"}, "return_hidden_states"),
        ({"text": "a", "lora_path": ["x"]}, "lora_path"),
    ],
)
async def test_an_error_names_the_field(body: dict[str, Any], param: str) -> None:
    assert await param_of(body) == param


async def test_what_the_gateway_adds_is_accepted() -> None:
    added = {
        "model": None,
        "return_text_in_logprobs": False,
        "stream": False,
        "log_metrics": True,
        "return_hidden_states": False,
        "background": False,
        "no_logs": False,
        "return_bytes": False,
        "return_entropy": False,
        "data_parallel_rank": 0,
        "logprob_start_len": -1,
        "some_unknown": 1,
    }
    response = await post(FakeEngineClient(ONE), PATH, {"text": "a"} | added)
    assert response.status_code == 200, response.text


async def test_a_stream_is_cumulative() -> None:
    response = await post(FakeEngineClient(ONE), PATH, {"text": "a", "stream": True, "rid": "r1"})
    first, last, done = events_of(response.text)
    assert last["meta_info"].pop("e2e_latency") >= 0
    assert first == {
        "text": 'x"',
        "output_ids": list(b'x"'),
        "meta_info": {**META, "finish_reason": None, "completion_tokens": 1},
    }
    assert last["text"] == 'x"y'
    assert last["output_ids"] == list(b'x"y')
    assert last["meta_info"]["finish_reason"] == {"type": "length", "length": 2}
    assert done == "[DONE]"


async def test_ids_without_text_yet_are_told_at_once() -> None:
    script = [[chunk("", token_ids=[200])], [chunk("é", token_ids=[201], finish=STOP)]]
    response = await post(FakeEngineClient(script), PATH, {"text": "a", "stream": True})
    first, last, _ = events_of(response.text)
    assert (first["text"], first["output_ids"]) == ("", [200])
    assert (last["text"], last["output_ids"]) == ("é", [200, 201])


async def test_a_streamed_batch_says_which_prompt_an_event_is_of() -> None:
    script = [[chunk("x", index=1)], [chunk("a", finish=STOP)], [chunk("y", index=1, finish=STOP)]]
    response = await post(FakeEngineClient(script), PATH, {"text": ["p", "q"], "stream": True})
    *events, _ = events_of(response.text)
    assert [(event["index"], event["text"]) for event in events] == [(1, "x"), (0, "a"), (1, "xy")]


async def test_each_prompt_of_a_batch_may_have_its_own_rid() -> None:
    client = FakeEngineClient(batch(4))
    body = {"text": ["a", "b"], "rid": ["x", "y"], "sampling_params": {"n": 2}}
    response = await post(client, PATH, body)
    assert client.requests[0].rids == ["x", "y"]
    assert [answer["meta_info"]["id"] for answer in response.json()] == ["x", "x", "y", "y"]


async def test_a_stream_may_carry_only_what_is_new() -> None:
    response = await post(
        FakeEngineClient(ONE),
        PATH,
        {"text": "a", "stream": True},
        args=ServerArgs(incremental_streaming_output=True),
    )
    first, last, _ = events_of(response.text)
    assert [(event["text"], event["output_ids"]) for event in (first, last)] == [
        ('x"', [120, 34]),
        ("y", [121]),
    ]
    assert [event["meta_info"]["completion_tokens"] for event in (first, last)] == [1, 2]


@pytest.mark.parametrize("stream", [False, True])
async def test_the_prompts_ids_come_back_if_wanted(stream: bool) -> None:
    body = {"input_ids": [[1, 2], [3]], "return_prompt_token_ids": True, "stream": stream}
    response = await post(FakeEngineClient(batch(2)), PATH, body)
    answers = events_of(response.text)[:-1] if stream else response.json()
    assert {answer["text"]: answer["prompt_token_ids"] for answer in answers} == {"0": [1, 2], "1": [3]}


async def test_the_replica_that_was_asked_for_is_named() -> None:
    response = await post(FakeEngineClient(ONE), PATH, {"text": "a", "routed_dp_rank": 1})
    assert response.json()["meta_info"]["dp_rank"] == 1
