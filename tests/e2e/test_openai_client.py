"""The default model over the official client, at every tensor-parallel size."""

from collections.abc import Iterator

import httpx
import pytest

from tests.e2e.server_process import ServerProcess

QUESTIONS = (
    "What is the capital of France?",
    "Write one sentence about the sea.",
    "Name three colours.",
)


@pytest.fixture(scope="module", params=[1, 2, 3], ids=lambda size: f"tp{size}")
def server(request: pytest.FixtureRequest) -> Iterator[ServerProcess]:
    flags = ("--tp-size", str(request.param), "--dtype", "float32", "--max-total-tokens", "20000")
    with ServerProcess(*flags) as server:
        yield server


def ask(server: ServerProcess, question: str, **options: object) -> str:
    answer = server.client().chat.completions.create(
        model="default",
        messages=[{"role": "user", "content": question}],
        temperature=0,
        max_tokens=24,
        **options,
    )
    content = answer.choices[0].message.content
    assert content is not None
    return content


# Filled by the first size, compared by the others: greedy text does not depend on the number of ranks.
_answers_at_first_size: dict[str, str] = {}


@pytest.mark.parametrize("question", QUESTIONS)
def test_greedy_answer_is_the_same_at_every_size(server: ServerProcess, question: str) -> None:
    answer = ask(server, question)
    assert answer == _answers_at_first_size.setdefault(question, answer)


def test_the_model_knows_the_capital_of_france(server: ServerProcess) -> None:
    assert "Paris" in ask(server, QUESTIONS[0])


def test_streamed_deltas_join_to_the_whole_answer(server: ServerProcess) -> None:
    stream = server.client().chat.completions.create(
        model="default",
        messages=[{"role": "user", "content": QUESTIONS[1]}],
        temperature=0,
        max_tokens=24,
        stream=True,
        stream_options={"include_usage": True},
    )
    text, finish_reasons, usage = "", [], None
    for chunk in stream:
        usage = chunk.usage or usage
        for choice in chunk.choices:
            text += choice.delta.content or ""
            finish_reasons += [choice.finish_reason] if choice.finish_reason else []
    assert text == ask(server, QUESTIONS[1])
    assert len(finish_reasons) == 1
    assert usage is not None
    assert usage.completion_tokens <= 24


def test_a_seed_gives_the_same_samples_and_n_gives_different_ones(server: ServerProcess) -> None:
    def sample() -> list[str]:
        answer = server.client().completions.create(
            model="default", prompt="Once upon a time", max_tokens=16, temperature=1.2, seed=7, n=3
        )
        return [choice.text for choice in answer.choices]

    first = sample()
    assert sample() == first
    assert len(set(first)) == 3


def test_a_stop_string_ends_the_answer_before_it(server: ServerProcess) -> None:
    whole = ask(server, QUESTIONS[2])
    stop = whole[5:8]
    cut = ask(server, QUESTIONS[2], stop=[stop])
    assert cut == whole[: whole.index(stop)]


def test_answers_in_a_batch_equal_answers_alone(server: ServerProcess) -> None:
    prompts = ["The sun", "Water is", "One, two, three,", "def main():"]
    client = server.client()
    batch = client.completions.create(model="default", prompt=prompts, max_tokens=12, temperature=0)
    texts = [choice.text for choice in batch.choices]
    alone = [
        client.completions.create(model="default", prompt=prompt, max_tokens=12, temperature=0)
        .choices[0]
        .text
        for prompt in prompts
    ]
    assert texts == alone


def test_processes_carry_their_names(server: ServerProcess) -> None:
    titles = " ".join(" ".join(process.cmdline()) for process in server.tree())
    assert "lockstep::scheduler_TP0" in titles
    assert "lockstep::detokenizer" in titles


def test_nothing_is_held_when_all_is_answered(server: ServerProcess) -> None:
    assert server.used_tokens() == 0
    assert httpx.post(f"{server.base_url}/flush_cache", timeout=30).status_code == 200
