"""Every API says what the others say: one server, one greedy answer, all official clients."""

import json
import math
import socket
from collections.abc import Iterator

import httpx
import pytest
from anthropic import Anthropic

from tests.e2e.server_process import ServerProcess
from tests.guide_pages import Snippet, read_curl, snippets

QUESTION = "Name three rivers."
MAX_TOKENS = 24
GUIDE = [
    snippet
    for page in ("README.md", "docs/quick_start.md")
    for snippet in snippets(page)
    if snippet.language == "python" or snippet.code.startswith("curl")
]


@pytest.fixture(scope="module")
def service_manager(tmp_path_factory: pytest.TempPathFactory) -> Iterator[socket.socket]:
    """What systemd listens with."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(tmp_path_factory.mktemp("manager") / "notify"))
        listener.settimeout(10)
        yield listener


@pytest.fixture(scope="module")
def server(tiny_model: str, service_manager: socket.socket) -> Iterator[ServerProcess]:
    with ServerProcess(
        *("--model-path", tiny_model, "--dtype", "float32", "--max-total-tokens", "20000"),
        env={"NOTIFY_SOCKET": service_manager.getsockname()},
    ) as server:
        yield server


@pytest.fixture(scope="module")
def answer(server: ServerProcess) -> str:
    """What chat completions say."""
    completion = server.client().chat.completions.create(
        model="default",
        messages=[{"role": "user", "content": QUESTION}],
        temperature=0,
        max_tokens=MAX_TOKENS,
    )
    text = completion.choices[0].message.content
    assert text
    return text


def test_anthropics_client_gets_the_same_answer_whole_and_streamed(
    server: ServerProcess, answer: str
) -> None:
    with Anthropic(base_url=server.base_url, api_key="none", max_retries=0) as client:
        message = client.messages.create(
            model="default",
            max_tokens=MAX_TOKENS,
            messages=[{"role": "user", "content": QUESTION}],
            extra_body={"temperature": 0},  # the newest clients have no name for it
        )
        with client.messages.stream(
            model="default",
            max_tokens=MAX_TOKENS,
            messages=[{"role": "user", "content": QUESTION}],
            extra_body={"temperature": 0},
        ) as stream:
            streamed = "".join(stream.text_stream)
        counted = client.messages.count_tokens(
            model="default", messages=[{"role": "user", "content": QUESTION}]
        )
    (block,) = message.content
    assert block.type == "text"
    assert (block.text, streamed) == (answer, answer)
    usage = message.usage
    assert usage.input_tokens + (usage.cache_read_input_tokens or 0) == counted.input_tokens


def test_the_responses_api_gets_the_same_answer_whole_and_streamed(
    server: ServerProcess, answer: str
) -> None:
    client = server.client()
    whole = client.responses.create(
        model="default", input=QUESTION, temperature=0, max_output_tokens=MAX_TOKENS
    )
    with client.responses.stream(
        model="default", input=QUESTION, temperature=0, max_output_tokens=MAX_TOKENS
    ) as stream:
        deltas = [event.delta for event in stream if event.type == "response.output_text.delta"]
    assert (whole.output_text, "".join(deltas)) == (answer, answer)


def test_a_call_that_must_be_made_is_made_in_every_clients_words(server: ServerProcess) -> None:
    """This model's weights are random: only the grammar makes it call, with arguments by their schema."""
    schema = {"type": "object", "properties": {"river": {"enum": ["Rhine", "Nile"]}}, "required": ["river"]}
    with Anthropic(base_url=server.base_url, api_key="none", max_retries=0) as client:
        message = client.messages.create(
            model="default",
            max_tokens=200,
            messages=[{"role": "user", "content": QUESTION}],
            tools=[{"name": "look", "input_schema": schema}],
            tool_choice={"type": "any", "disable_parallel_tool_use": True},
        )
    (block,) = message.content
    assert block.type == "tool_use"
    assert block.input["river"] in ("Rhine", "Nile")
    assert message.stop_reason == "tool_use"
    response = server.client().responses.create(
        model="default",
        input=QUESTION,
        max_output_tokens=200,
        tools=[{"type": "function", "name": "look", "parameters": schema, "strict": True}],
        tool_choice="required",
        parallel_tool_calls=False,
    )
    (item,) = response.output
    assert item.type == "function_call"
    assert json.loads(item.arguments)["river"] in ("Rhine", "Nile")


def test_a_score_is_the_models_own_probability_and_the_query_is_computed_once(server: ServerProcess) -> None:
    query = "The long common beginning of all of these sentences, word for word and to the letter: " * 3
    items = [f"number {i}" for i in range(4)]
    labels = [10, 2000, 30000]
    body = {"query": query, "items": items, "label_token_ids": labels}
    scored = server.post("/v1/score", body).raise_for_status().json()
    native = {
        "text": [query + item for item in items],
        "sampling_params": {"max_new_tokens": 1},
        "return_logprob": True,
        "token_ids_logprob": labels,
    }
    answers = server.post("/generate", native).raise_for_status().json()
    for row, said in zip(scored["scores"], answers, strict=True):
        asked = said["meta_info"]["output_token_ids_logprobs"][0]
        assert row == pytest.approx([math.exp(logprob) for logprob, *_ in asked], rel=1e-4)
    usage = scored["usage"]
    assert usage["prompt_tokens_details"]["cached_tokens"] > usage["prompt_tokens"] / 2


def test_reranking_computes_what_comes_before_the_documents_once(server: ServerProcess) -> None:
    documents = ["The Nile is a river.", "Alps are mountains.", "The Rhine flows."]
    body = {"query": "Which rivers are there?", "documents": documents}
    ranked = server.post("/v1/rerank", body).raise_for_status().json()
    scores = [document["score"] for document in ranked]
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= score <= 1 for score in scores)
    assert {document["document"] for document in ranked} == set(documents)
    cached = sorted(document["meta_info"]["cached_tokens"] for document in ranked)
    assert cached[1] > 50


@pytest.mark.parametrize("snippet", GUIDE, ids=lambda snippet: snippet.name)
def test_what_the_guide_shows_works_as_it_stands(
    server: ServerProcess, snippet: Snippet, capsys: pytest.CaptureFixture[str]
) -> None:
    code = snippet.code.replace("http://127.0.0.1:30000", server.base_url)
    if snippet.language == "python":
        exec(compile(code, snippet.name, "exec"), {"__name__": "__main__"})
        assert capsys.readouterr().out.strip()
    else:
        url, headers, body = read_curl(code)
        asked = httpx.request("POST" if body else "GET", url, headers=headers, content=body, timeout=60)
        assert asked.raise_for_status().json()


def test_a_service_manager_is_told_when_it_serves_and_when_it_stops(
    server: ServerProcess, service_manager: socket.socket
) -> None:
    """The last one here: it ends the server."""
    assert service_manager.recv(100) == b"READY=1"
    assert server.terminate() == 0
    assert service_manager.recv(100) == b"STOPPING=1"
