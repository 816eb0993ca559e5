"""The default model over the official client, at every tensor-parallel size."""

from collections.abc import Iterator

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


def test_log_probabilities_of_an_answer_are_those_of_its_text(server: ServerProcess) -> None:
    answer = server.client().chat.completions.create(
        model="default",
        messages=[{"role": "user", "content": "Repeat: größte 世界"}],
        temperature=0,
        max_tokens=16,
        logprobs=True,
        top_logprobs=3,
    )
    (choice,) = answer.choices
    assert choice.logprobs is not None
    entries = choice.logprobs.content or []
    told = b"".join(bytes(entry.bytes or ()) for entry in entries)
    assert told.decode() == choice.message.content
    # Greedy: each token is the likeliest, and there are three.
    assert all(entry.logprob == entry.top_logprobs[0].logprob for entry in entries)
    assert {len(entry.top_logprobs) for entry in entries} == {3}
    assert answer.usage is not None
    assert answer.usage.completion_tokens - len(entries) == (choice.finish_reason == "stop")


def test_a_prompt_is_scored_as_its_end_was_when_it_was_an_answer(server: ServerProcess) -> None:
    client, prompt = server.client(), "The largest café in 東京 is"
    answer = client.completions.create(
        model="default", prompt=prompt, max_tokens=8, temperature=0, logprobs=1, echo=True
    ).choices[0]
    scored = client.completions.create(
        model="default", prompt=answer.text, max_tokens=0, logprobs=1, echo=True
    ).choices[0]
    told, again = answer.logprobs, scored.logprobs
    assert told is not None
    assert again is not None
    assert scored.text == answer.text
    assert (again.tokens, again.text_offset) == (told.tokens, told.text_offset)
    assert again.token_logprobs[0] is None
    assert again.token_logprobs[1:] == pytest.approx(told.token_logprobs[1:], abs=1e-4)


def test_text_offsets_cut_the_text_into_its_tokens(server: ServerProcess) -> None:
    choice = (
        server.client()
        .completions.create(
            model="default", prompt="naïve 🗼 text", max_tokens=6, temperature=0, logprobs=0, echo=True
        )
        .choices[0]
    )
    assert choice.logprobs is not None
    tokens, offsets = choice.logprobs.tokens or [], choice.logprobs.text_offset or []
    cuts = [choice.text[a:b] for a, b in zip(offsets, [*offsets[1:], len(choice.text)], strict=True)]
    whole = [(cut, token) for cut, token in zip(cuts, tokens, strict=True) if not token.startswith("bytes:")]
    assert [cut for cut, _ in whole] == [token for _, token in whole]
    assert "".join(cuts) == choice.text
    assert len(whole) < len(tokens)  # the tower is several tokens


def test_processes_carry_their_names(server: ServerProcess) -> None:
    titles = " ".join(" ".join(process.cmdline()) for process in server.tree())
    assert "lockstep::scheduler_TP0" in titles
    assert "lockstep::detokenizer" in titles


def test_nothing_is_held_when_all_is_answered(server: ServerProcess) -> None:
    assert server.used_tokens() == 0
    assert server.http.post("/flush_cache").status_code == 200
