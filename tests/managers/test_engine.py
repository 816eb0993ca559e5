"""The server without HTTP, all its processes real, on a tiny model."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from managers.engine import Engine
from srt.engine_client import LogprobOptions, Logprobs, TokenPrompt
from srt.errors import ContextLengthExceeded, ServerNotReady, StartupError
from srt.sampling.params import SamplingParams
from srt.server_args.server_args import ServerArgs
from tests.fakes.small_tokenizers import byte_level_bpe
from tests.fakes.tiny_checkpoint import write_tiny_checkpoint

GREEDY = SamplingParams(temperature=0.0, max_new_tokens=12, ignore_eos=True)


@pytest.fixture(scope="module")
def args(tmp_path_factory: pytest.TempPathFactory) -> ServerArgs:
    folder = tmp_path_factory.mktemp("tiny")
    tokenizer = byte_level_bpe()
    write_tiny_checkpoint(folder, vocab_size=tokenizer.get_vocab_size())
    tokenizer.save(str(folder / "tokenizer.json"))
    # Nearly all of the memory, whatever else runs here: the cap on tokens keeps it small.
    return ServerArgs(
        model_path=str(folder), dtype="float32", max_total_tokens=512, mem_fraction_static=0.99, cpu_threads=1
    )


@pytest.fixture(scope="module")
def engine(args: ServerArgs) -> Iterator[Engine]:
    with Engine(args) as engine:
        yield engine


def test_answers_come_in_the_order_of_the_prompts_and_do_not_depend_on_their_company(engine: Engine) -> None:
    prompts = ["the quick brown fox", "café", "def f(x):"]
    together = engine.generate(prompts, GREEDY)
    alone = [engine.generate([prompt], GREEDY)[0] for prompt in prompts]
    assert [answer.index for answer in together] == [0, 1, 2]
    assert [answer.token_ids for answer in together] == [answer.token_ids for answer in alone]
    assert [len(answer.token_ids) for answer in together] == [12, 12, 12]


def test_the_text_is_that_of_the_tokens(engine: Engine) -> None:
    (answer,) = engine.generate(["the lazy dog"], GREEDY)
    assert answer.text == engine.run(engine.client.detokenize(answer.token_ids))
    assert answer.finish.type == "length"


def test_an_answer_that_comes_back_as_a_prompt_is_told_the_same(engine: Engine) -> None:
    options = LogprobOptions(prompt_start=0, num_top=3, token_ids=(5, 6))
    prompt_ids = [7, 8, 9, 10]
    sampling = SamplingParams(
        temperature=1.3, max_new_tokens=12, seed=5, ignore_eos=True, presence_penalty=1.0
    )
    (answer,) = engine.generate([TokenPrompt(prompt_ids)], sampling, logprobs=options)
    whole_ids = prompt_ids + answer.token_ids
    (again,) = engine.generate([TokenPrompt(whole_ids)], SamplingParams(max_new_tokens=0), logprobs=options)

    assert (answer.prompt_logprobs is None, answer.logprobs is None, again.logprobs) == (
        False,
        False,
        Logprobs(),
    )
    first = answer.prompt_logprobs or Logprobs()
    first.extend(answer.logprobs or Logprobs())
    told = again.prompt_logprobs or Logprobs()
    assert told.token_ids == first.token_ids == whole_ids
    assert told.logprobs[0] is first.logprobs[0] is None
    assert told.logprobs[1:] == pytest.approx(first.logprobs[1:], abs=1e-4)
    assert [[i for i, _ in top] for top in told.top] == [[i for i, _ in top] for top in first.top]
    assert told.asked[-1] == pytest.approx(first.asked[-1], abs=1e-4)


def test_seeded_choices_come_again(engine: Engine) -> None:
    sampling = SamplingParams(temperature=1.0, max_new_tokens=12, n=3, seed=5, ignore_eos=True)
    first, again = (engine.generate([TokenPrompt([7, 8, 9])], sampling) for _ in range(2))
    assert [answer.token_ids for answer in first] == [answer.token_ids for answer in again]
    assert len({tuple(answer.token_ids) for answer in first}) == 3


def test_a_stop_string_ends_an_answer_and_is_not_in_it(engine: Engine) -> None:
    (whole,) = engine.generate(["the"], GREEDY)
    stop = whole.text[3:6]
    stopping = SamplingParams(temperature=0.0, max_new_tokens=12, ignore_eos=True, stop=(stop,))
    (answer,) = engine.generate(["the"], stopping)
    assert (answer.text, answer.finish.matched) == (whole.text[: whole.text.index(stop)], stop)


def test_a_prompt_that_cannot_fit_is_refused_and_harms_nobody(engine: Engine) -> None:
    with pytest.raises(ContextLengthExceeded):
        engine.generate([TokenPrompt([5] * 400)], GREEDY)
    assert len(engine.generate(["the"], GREEDY)) == 1


def test_a_closed_engine_answers_nobody_and_may_be_closed_again(args: ServerArgs) -> None:
    engine = Engine(args)
    engine.close()
    engine.close()
    with pytest.raises(ServerNotReady):
        engine.generate(["the"], GREEDY)


def test_an_engine_that_cannot_start_says_why(tmp_path: Path) -> None:
    with pytest.raises(StartupError, match="no model"):
        Engine(ServerArgs(model_path=str(tmp_path / "nothing")))
