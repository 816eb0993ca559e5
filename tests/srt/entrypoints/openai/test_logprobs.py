"""Log-probabilities as OpenAI's clients get them, in chat and in completions, whole and streamed."""

from typing import Any

import pytest

from srt.engine_client import LogprobOptions
from srt.entrypoints.openai.logprobs import to_chat_logprobs, to_completion_logprobs
from srt.entrypoints.openai.released_tokens import ReleasedTokens
from tests.fakes.engine_client import LENGTH, STOP, FakeEngineClient, chunk
from tests.fakes.http_world import CHAT, error_of, events_of, post, serving
from tests.fakes.told_chunks import told

pytestmark = pytest.mark.anyio

CHAT_PATH = "/v1/chat/completions"
PATH = "/v1/completions"


@pytest.mark.parametrize(
    ("path", "body", "options"),
    [
        (CHAT_PATH, CHAT | {"logprobs": True}, LogprobOptions()),
        (CHAT_PATH, CHAT | {"logprobs": True, "top_logprobs": 20}, LogprobOptions(num_top=20)),
        (CHAT_PATH, CHAT | {"logprobs": True, "top_logprobs": None}, LogprobOptions()),
        (PATH, {"prompt": "a", "logprobs": 0}, LogprobOptions()),
        (PATH, {"prompt": "a", "logprobs": 5}, LogprobOptions(num_top=5)),
        (PATH, {"prompt": "a", "logprobs": 2, "echo": True}, LogprobOptions(prompt_start=0, num_top=2)),
    ],
)
async def test_what_is_asked_reaches_the_engine(path: str, body: Any, options: LogprobOptions) -> None:
    client = FakeEngineClient([[told("a", finish=STOP)]])
    assert (await post(client, path, body)).status_code == 200
    assert list(client.requests[0].logprobs) == [options]


async def test_each_prompt_of_a_list_is_told_of() -> None:
    client = FakeEngineClient([[told("a", finish=STOP), told("b", index=1, finish=STOP)]])
    await post(client, PATH, {"prompt": ["x", "y"], "logprobs": 1})
    assert list(client.requests[0].logprobs) == [LogprobOptions(num_top=1)] * 2


@pytest.mark.parametrize("body", [{}, {"logprobs": False}, {"logprobs": None, "top_logprobs": 0}])
async def test_nobody_is_told_who_did_not_ask(body: dict[str, Any]) -> None:
    client = FakeEngineClient([[chunk("a", finish=STOP)]])
    response = await post(client, CHAT_PATH, CHAT | body)
    assert list(client.requests[0].logprobs) == []
    assert response.json()["choices"][0]["logprobs"] is None


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
        ({"logprobs": True, "top_logprobs": -1}, "top_logprobs"),
        ({"logprobs": 1_000_000}, "logprobs"),
        ({"top_logprobs": 5}, "top_logprobs"),
        ({"logprobs": False, "top_logprobs": 5}, "top_logprobs"),
    ],
)
async def test_what_chat_cannot_tell_is_a_400(body: dict[str, Any], param: str) -> None:
    response = await post(FakeEngineClient(), CHAT_PATH, CHAT | body)
    assert response.status_code == 400
    assert error_of(response)["param"] == param


async def test_a_whole_chat_answer_says_what_each_token_was_worth() -> None:
    client = FakeEngineClient([[told("h", num_top=2)], [told("i", num_top=2, finish=STOP)]])
    response = await post(client, CHAT_PATH, CHAT | {"logprobs": True, "top_logprobs": 2})
    top = [
        {"token": "a", "bytes": [97], "logprob": -0.5},
        {"token": "b", "bytes": [98], "logprob": -1.5},
    ]
    assert response.json()["choices"][0]["logprobs"] == {
        "content": [
            {"token": "h", "bytes": [104], "logprob": -104.0, "top_logprobs": top},
            {"token": "i", "bytes": [105], "logprob": -105.0, "top_logprobs": top},
        ],
        "refusal": None,
    }


async def test_parts_of_a_character_keep_their_bytes_and_can_be_told_apart() -> None:
    response = await post(FakeEngineClient([[told("ü", finish=STOP)]]), CHAT_PATH, CHAT | {"logprobs": True})
    content = response.json()["choices"][0]["logprobs"]["content"]
    assert [entry["token"] for entry in content] == ["\\xc3", "\\xbc"]
    assert bytes(b for entry in content for b in entry["bytes"]).decode() == "ü"


async def test_a_chat_stream_tells_of_a_token_when_its_text_comes() -> None:
    script = [
        [told("a")],
        [told("", token_ids=b"E")],
        [told("Eb", token_ids=b"b")],
        [told("", token_ids=b"\x02", num_trimmed_tokens=1, finish=STOP)],
    ]
    body = CHAT | {"logprobs": True, "stream": True}
    *chunks, done = events_of((await post(FakeEngineClient(script), CHAT_PATH, body)).text)
    choices = [c["choices"][0] for c in chunks]
    assert [c["delta"] for c in choices] == [
        {"role": "assistant", "content": ""},
        {"content": "a"},
        {"content": "Eb"},
        {},
    ]
    told_of = [[e["token"] for e in (c["logprobs"] or {"content": []})["content"]] for c in choices]
    assert told_of == [[], ["a"], ["E", "b"], []]
    assert choices[-1]["finish_reason"] == "stop"
    assert done == "[DONE]"


async def test_tokens_whose_text_never_came_are_told_of_with_the_end() -> None:
    # Half a character, where the answer was cut off.
    script = [[told("a")], [told("", token_ids=b"\xc3")], [told("", token_ids=[], finish=LENGTH)]]
    body = CHAT | {"logprobs": True, "stream": True}
    *chunks, _ = events_of((await post(FakeEngineClient(script), CHAT_PATH, body)).text)
    assert chunks[-1]["choices"][0]["logprobs"]["content"][0]["bytes"] == [0xC3]


async def test_a_whole_completion_says_where_each_token_begins() -> None:
    client = FakeEngineClient(
        [[told("aü", num_top=1)], [told("", token_ids=b"\x02", num_trimmed_tokens=1, finish=STOP)]]
    )
    response = await post(client, PATH, {"prompt": "p", "logprobs": 1})
    # The token that ended it is among them: who scores a prompt counts from the end.
    assert response.json()["choices"][0]["logprobs"] == {
        "tokens": ["a", "bytes:\\xc3", "bytes:\\xbc", "\x02"],
        "token_logprobs": [-97.0, -195.0, -188.0, -2.0],
        "top_logprobs": [
            {"a": -0.5},  # itself, and the likeliest: one text, the likelier value
            {"a": -0.5, "bytes:\\xc3": -195.0},
            {"a": -0.5, "bytes:\\xbc": -188.0},
            {"\x02": -2.0},
        ],
        "text_offset": [0, 1, 1, 2],
    }


@pytest.mark.parametrize("prompt", ["hü", [104, 195, 188]])
@pytest.mark.parametrize("is_stream", [False, True])
async def test_an_echo_tells_of_the_prompt_from_its_first_token_on(prompt: Any, is_stream: bool) -> None:
    client = FakeEngineClient(
        [[told("x", prompt="hü".encode(), num_top=1)], [told("y", num_top=1, finish=LENGTH)]]
    )
    body = {"prompt": prompt, "logprobs": 1, "echo": True, "stream": is_stream}
    response = await post(client, PATH, body)
    bodies = events_of(response.text)[:-1] if is_stream else [response.json()]
    choices = [b["choices"][0] for b in bodies]
    assert "".join(c["text"] for c in choices) == "hüxy"
    logprobs: dict[str, list[Any]] = {}
    for choice in choices:
        for name, column in (choice["logprobs"] or {}).items():
            logprobs.setdefault(name, []).extend(column)
    assert logprobs == {
        "tokens": ["h", "bytes:\\xc3", "bytes:\\xbc", "x", "y"],
        "token_logprobs": [None, -195.0, -188.0, -120.0, -121.0],
        "top_logprobs": [
            None,
            {"a": -0.5, "bytes:\\xc3": -195.0},
            {"a": -0.5, "bytes:\\xbc": -188.0},
            {"a": -0.5, "x": -120.0},
            {"a": -0.5, "y": -121.0},
        ],
        "text_offset": [0, 1, 1, 2, 3],
    }


@pytest.mark.parametrize("is_stream", [False, True])
async def test_a_prompt_can_be_scored_without_an_answer(is_stream: bool) -> None:
    client = FakeEngineClient([[told("", prompt=b"abc", finish=LENGTH, completion_tokens=0)]])
    body = {"prompt": "abc", "logprobs": 0, "echo": True, "max_tokens": 0, "stream": is_stream}
    response = await post(client, PATH, body)
    choice = (events_of(response.text)[0] if is_stream else response.json())["choices"][0]
    assert client.requests[0].sampling[0].max_new_tokens == 0
    assert choice["text"] == "abc"
    assert choice["logprobs"]["token_logprobs"] == [None, -98.0, -99.0]
    assert choice["logprobs"]["top_logprobs"] == [None, {"b": -98.0}, {"c": -99.0}]


async def test_n_answers_are_each_told_of() -> None:
    script = [[told("a", index=1, finish=STOP), told("b", index=0, finish=STOP)]]
    response = await post(FakeEngineClient(script), CHAT_PATH, CHAT | {"logprobs": True, "n": 2})
    tokens = [c["logprobs"]["content"][0]["token"] for c in response.json()["choices"]]
    assert tokens == ["b", "a"]


async def test_the_official_client_reads_them_streamed() -> None:
    client = FakeEngineClient([[told("h", num_top=1)], [told("i", num_top=1, finish=STOP)]])
    async with (
        serving(client) as world,
        world.openai() as openai,
        openai.chat.completions.stream(
            model="m", messages=CHAT["messages"], logprobs=True, top_logprobs=1
        ) as stream,
    ):
        answer = await stream.get_final_completion()
    logprobs = answer.choices[0].logprobs
    assert logprobs is not None
    assert logprobs.content is not None
    assert [(e.token, e.logprob, e.top_logprobs[0].token) for e in logprobs.content] == [
        ("h", -104.0, "a"),
        ("i", -105.0, "a"),
    ]


def test_of_two_tokens_with_one_text_the_likelier_is_kept() -> None:
    texts = [b"same", b"same", b"other"]
    released = ReleasedTokens(token_ids=[1], logprobs=[-3.0], top=[[(0, -1.0), (2, -2.0)]], offsets=[0])
    completion = to_completion_logprobs(released, texts.__getitem__)
    assert completion.top_logprobs == [{"same": -1.0, "other": -2.0}]
    # Chat has a list, which holds both.
    (entry,) = to_chat_logprobs(released, texts.__getitem__).content
    assert [(top.token, top.logprob) for top in entry.top_logprobs] == [("same", -1.0), ("other", -2.0)]


async def test_ids_come_whole_if_they_are_asked_for() -> None:
    client = FakeEngineClient([[told("hi", finish=STOP)]], [[told("hi", finish=STOP)]])
    body = {"return_token_ids": True}
    chat = (await post(client, CHAT_PATH, CHAT | body)).json()["choices"][0]
    completion = (await post(client, PATH, {"prompt": [5, 6]} | body)).json()["choices"][0]
    assert (chat["prompt_token_ids"], chat["response_token_ids"]) == (list(b"hi"), list(b"hi"))
    assert (completion["prompt_token_ids"], completion["token_ids"]) == ([5, 6], list(b"hi"))
