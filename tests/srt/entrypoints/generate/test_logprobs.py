"""Log-probabilities of the native endpoint, in SGLang's shapes."""

from typing import Any

import pytest

from srt.engine_client import LogprobOptions, Logprobs
from srt.errors import InvalidRequest
from srt.server_args.server_args import ServerArgs
from tests.fakes.engine_client import STOP, FakeEngineClient, chunk
from tests.fakes.http_world import error_of, events_of, post

pytestmark = pytest.mark.anyio

PATH = "/generate"
ALL = {"return_logprob": True, "logprob_start_len": 0, "top_logprobs_num": 2, "token_ids_logprob": [7]}
OPTIONS = LogprobOptions(prompt_start=0, num_top=2, token_ids=(7,))


def told(text: str, *, of_whole_prompt: bool = False) -> Logprobs:
    """Of each letter: its own logprob, two likeliest and the one that was asked for."""
    logprobs = Logprobs()
    for token_id in text.encode():
        is_first = of_whole_prompt and not logprobs.token_ids
        logprobs.extend(
            Logprobs(
                token_ids=[token_id],
                logprobs=[None if is_first else -1.5],
                top=[[] if is_first else [(65, -0.25), (token_id, -1.5)]],
                asked=[[] if is_first else [-9999.0]],
            )
        )
    return logprobs


def script() -> list[Any]:
    return [
        [chunk("a", logprobs=told("a"), prompt_logprobs=told("hi", of_whole_prompt=True))],
        [chunk("", token_ids=[])],
        [chunk("bc", logprobs=told("bc"), finish=STOP, completion_tokens=3)],
    ]


def lists(meta: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in meta.items() if "logprobs" in name}


INPUT = {
    "input_token_logprobs": [[None, 104, None], [-1.5, 105, None]],
    "input_top_logprobs": [None, [[-0.25, 65, None], [-1.5, 105, None]]],
    "input_token_ids_logprobs": [None, [[-9999.0, 7, None]]],
}


def output(text: str, length: int) -> dict[str, Any]:
    ids = list(text.encode())
    return {
        "output_token_logprobs": [[-1.5, i, None] for i in ids],
        "output_top_logprobs": [[[-0.25, 65, None], [-1.5, i, None]] for i in ids],
        "output_token_ids_logprobs": [[[-9999.0, 7, None]] for _ in ids],
        "output_token_logprobs_length": length,
    }


async def test_prompt_and_answer_are_told_token_by_token() -> None:
    client = FakeEngineClient(script())
    response = await post(client, PATH, {"text": "hi", **ALL})
    assert client.requests[0].logprobs == [OPTIONS]
    assert lists(response.json()["meta_info"]) == {**INPUT, **output("abc", 3)}


async def test_texts_stand_beside_the_ids_if_wanted() -> None:
    response = await post(
        FakeEngineClient(script()), PATH, {"text": "hi", "return_text_in_logprobs": True, **ALL}
    )
    meta = response.json()["meta_info"]
    assert meta["input_token_logprobs"] == [[None, 104, "h"], [-1.5, 105, "i"]]
    assert meta["output_top_logprobs"][0] == [[-0.25, 65, "A"], [-1.5, 97, "a"]]
    assert meta["output_token_ids_logprobs"][0] == [[-9999.0, 7, "\x07"]]


async def test_of_the_answer_only_unless_the_prompt_is_asked_for() -> None:
    client = FakeEngineClient([[chunk("a", logprobs=told("a"), finish=STOP)]])
    response = await post(client, PATH, {"text": "hi", "return_logprob": True, "logprob_start_len": -1})
    assert client.requests[0].logprobs == [LogprobOptions()]
    assert lists(response.json()["meta_info"]) == {
        "input_token_logprobs": [],
        "output_token_logprobs": [[-1.5, 97, None]],
        "output_token_logprobs_length": 1,
    }


async def test_a_stream_is_cumulative_in_them_too() -> None:
    response = await post(FakeEngineClient(script()), PATH, {"text": "hi", "stream": True, **ALL})
    *events, _ = events_of(response.text)
    assert [lists(event["meta_info"]) for event in events] == [
        {**INPUT, **output("a", 1)},
        {**INPUT, **output("a", 1)},
        {**INPUT, **output("abc", 3)},
    ]


async def test_an_incremental_stream_has_the_new_ones_and_the_prompts_once() -> None:
    response = await post(
        FakeEngineClient(script()),
        PATH,
        {"text": "hi", "stream": True, **ALL},
        args=ServerArgs(incremental_streaming_output=True),
    )
    *events, _ = events_of(response.text)
    assert [lists(event["meta_info"]) for event in events] == [
        {**INPUT, **output("a", 1)},
        output("", 1),
        output("bc", 3),
    ]


async def test_each_prompt_may_want_something_else() -> None:
    client = FakeEngineClient([[chunk(str(i), index=i, finish=STOP) for i in range(3)]])
    await post(
        client,
        PATH,
        {
            "text": ["a", "b", "c"],
            "return_logprob": [True, False, True],
            "logprob_start_len": [0, -1, None],
            "top_logprobs_num": [1, 0, 3],
            "token_ids_logprob": [[4, 5], None, []],
        },
    )
    assert client.requests[0].logprobs == [
        LogprobOptions(prompt_start=0, num_top=1, token_ids=(4, 5)),
        None,
        LogprobOptions(num_top=3),
    ]


async def test_only_those_who_asked_are_told() -> None:
    answers = [chunk("a", logprobs=told("a"), finish=STOP), chunk("b", index=1, finish=STOP)]
    for stream in (False, True):
        response = await post(
            FakeEngineClient([answers]),
            PATH,
            {"text": ["a", "b"], "return_logprob": [True, False], "stream": stream},
        )
        told_of = events_of(response.text)[:-1] if stream else response.json()
        assert [bool(lists(answer["meta_info"])) for answer in told_of] == [True, False]


@pytest.mark.parametrize(
    "harmless", [{"return_logprob": False, "logprob_start_len": 0}, {"token_ids_logprob": []}]
)
async def test_who_asks_for_nothing_costs_nothing(harmless: dict[str, Any]) -> None:
    client = FakeEngineClient([[chunk("a", finish=STOP)]])
    response = await post(client, PATH, {"text": "hi", **harmless})
    assert client.requests[0].logprobs == ()
    assert lists(response.json()["meta_info"]) == {}


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"top_logprobs_num": 2}, "top_logprobs_num"),
        ({"token_ids_logprob": [2]}, "token_ids_logprob"),
        ({"return_logprob": True, "logprob_start_len": -2}, "logprob_start_len"),
        ({"return_logprob": [True, True]}, "return_logprob"),
        ({"return_logprob": True, "token_ids_logprob": [1, [2]]}, "token_ids_logprob"),
        ({"return_logprob": True, "token_ids_logprob": [[1], [2]]}, "token_ids_logprob"),
        ({"return_logprob": "yes"}, "return_logprob"),
        ({"return_logprob": True, "top_logprobs_num": 1.5}, "top_logprobs_num"),
    ],
)
async def test_an_error_names_the_field(body: dict[str, Any], param: str) -> None:
    client = FakeEngineClient()
    response = await post(client, PATH, {"text": "hi", **body})
    assert (response.status_code, error_of(response)["param"]) == (400, param)
    assert client.requests == []


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("prompt_start", "logprob_start_len"),
        ("num_top", "top_logprobs_num"),
        ("token_ids", "token_ids_logprob"),
    ],
)
async def test_what_the_engine_refuses_is_named_as_the_client_wrote_it(ours: str, theirs: str) -> None:
    client = FakeEngineClient()
    client.refusal = InvalidRequest(f"{ours} is too much", param=ours)
    error = error_of(await post(client, PATH, {"text": "hi", **ALL}))
    assert (error["param"], error["message"]) == (theirs, f"{theirs} is too much")
