"""Answers that keep to a grammar. That no schedule changes any of them, test_any_schedule.py tests."""

import pytest

from managers.messages import DefineGrammar, RequestGrammar, TokenizedRequest, pack_token_ids
from srt.sampling.params import SamplingParams
from tests.fakes.grammars import FakeRule
from tests.fakes.tokenizer import EOS_ID
from tests.managers.scheduler.solo import SoloGrammar
from tests.managers.scheduler.world import World, greedy

FIVE_LETTERS = SoloGrammar(FakeRule(letters="aceg", least=5, most=5))
ANY_LETTERS = SoloGrammar(FakeRule(letters="aceg"))


def ask(world: World, sampling: SamplingParams, grammar: SoloGrammar | None = FIVE_LETTERS) -> str:
    """The text, of one that was answered."""
    request_id = world.add("hello", sampling, grammar=grammar)
    world.run()
    assert world.finish(request_id).reason.type in ("stop", "length")
    return bytes(world.answer(request_id).token_ids).decode()


@pytest.mark.parametrize("overlaps", [False, True])
@pytest.mark.parametrize("min_new_tokens", [0, 8])
def test_an_answer_to_which_nothing_may_be_added_ends(overlaps: bool, min_new_tokens: int) -> None:
    world = World(overlaps=overlaps)
    sampling = greedy(20, min_new_tokens=min_new_tokens, ignore_eos=True)
    request_id = world.add("hello", sampling, grammar=FIVE_LETTERS)
    world.run()
    answer = world.answer(request_id)
    assert (answer.finish_type, answer.matched, len(answer.token_ids)) == ("stop", None, 5)


def test_a_limit_cuts_the_answer_short_and_says_so() -> None:
    world = World()
    request_id = world.add("hello", greedy(3), grammar=FIVE_LETTERS)
    world.run()
    assert (world.answer(request_id).finish_type, len(world.answer(request_id).token_ids)) == ("length", 3)


def test_an_answer_that_is_whole_at_its_limit_ends_by_itself() -> None:
    world = World()
    request_id = world.add("hello", greedy(5), grammar=FIVE_LETTERS)
    world.run()
    assert world.answer(request_id).finish_type == "stop"


@pytest.mark.parametrize("temperature", [0.0, 2.0])
def test_the_mask_wins_over_any_bias(temperature: float) -> None:
    bias = ((EOS_ID, 100.0), (ord("z"), 100.0), (300 - 50, 100.0), (ord("a"), -100.0))
    sampling = SamplingParams(max_new_tokens=20, temperature=temperature, seed=5, logit_bias=bias)
    assert set(ask(World(), sampling)) <= set("ceg")


def test_fifty_that_may_say_one_token_each_are_all_answered() -> None:
    world = World()
    ids = [world.add("hello", greedy(1), grammar=ANY_LETTERS) for _ in range(50)]
    world.run()
    assert {world.answer(request_id).finish_type for request_id in ids} == {"length"}


@pytest.mark.parametrize("overlaps", [False, True])
def test_where_nothing_is_possible_the_request_ends_with_an_error_and_no_text(overlaps: bool) -> None:
    world = World(overlaps=overlaps)
    only_the_stop_token = SoloGrammar(FakeRule(letters="c", least=1))
    request_id = world.add("hello", greedy(20, stop_token_ids=(ord("c"),)), grammar=only_the_stop_token)
    other = world.add("hello", greedy(20))
    world.run()
    reason = world.finish(request_id).reason
    assert (reason.type, reason.status_code) == ("abort", 500)
    assert world.answer(request_id).token_ids == []
    assert world.answer(other).finish_type in ("stop", "length")
    assert world.stats().memory.num_used == 0


def test_bytes_that_are_no_grammar_end_their_request_only() -> None:
    world = World()
    world.send(DefineGrammar(grammar_id=7, payload=b"{"))
    world.send(
        TokenizedRequest(
            request_id=100,
            input_ids=pack_token_ids([97]),
            sampling=greedy(5),
            stream=True,
            grammar=RequestGrammar(grammar_id=7),
        )
    )
    other = world.add("hello", greedy(20), grammar=FIVE_LETTERS)
    world.run()
    assert world.finish(100).reason.status_code == 500
    assert world.answer(other).finish_type == "stop"


def test_a_grammar_that_was_never_defined_is_an_error_at_once() -> None:
    world = World()
    world.send(
        TokenizedRequest(
            request_id=100,
            input_ids=pack_token_ids([97]),
            sampling=greedy(5),
            stream=True,
            grammar=RequestGrammar(grammar_id=7),
        )
    )
    world.run()
    assert world.finish(100).reason.status_code == 500
