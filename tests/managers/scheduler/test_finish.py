from managers.scheduler.finish import Finish, FinishRules
from srt.engine_client import FinishReason
from srt.tokenizer.stop_matcher import StopMatch
from tests.managers.scheduler.world import greedy

EOS, COMMA = 9, 3
MATCH = StopMatch("ab", 4, 6)


def rules(max_new_tokens: int = 8, **changes: object) -> FinishRules:
    return FinishRules.of(greedy(max_new_tokens, **changes), max_new_tokens, (EOS,), vocab_size=10)


def test_an_ordinary_token_goes_on() -> None:
    assert rules().decide(1, 5, None) is None


def test_the_last_allowed_token_ends_by_length() -> None:
    assert rules(2).decide(2, 5, None) == Finish(FinishReason(type="length"))


def test_eos_is_a_stop_and_no_text() -> None:
    assert rules().decide(1, EOS, None) == Finish(
        FinishReason(type="stop", matched=EOS), num_trimmed_tokens=1
    )


def test_eos_is_text_for_whoever_wants_no_trimming() -> None:
    finish = rules(no_stop_trim=True).decide(1, EOS, None)
    assert finish == Finish(FinishReason(type="stop", matched=EOS))


def test_ignore_eos_keeps_the_clients_own_stop_tokens() -> None:
    ignoring = rules(ignore_eos=True, stop_token_ids=(COMMA,))
    assert ignoring.decide(1, EOS, None) is None
    assert ignoring.decide(1, COMMA, None) is not None


def test_a_stop_string_wins_over_a_stop_token() -> None:
    finish = rules().decide(1, EOS, MATCH)
    assert finish == Finish(FinishReason(type="stop", matched="ab"), text_end=4)


def test_a_stop_string_is_kept_for_whoever_wants_no_trimming() -> None:
    finish = rules(no_stop_trim=True).decide(1, 5, MATCH)
    assert finish is not None
    assert finish.text_end == 6


def test_a_stop_wins_over_length() -> None:
    finish = rules(1).decide(1, EOS, None)
    assert finish is not None
    assert finish.reason.type == "stop"


def test_nothing_stops_before_min_new_tokens() -> None:
    patient = rules(min_new_tokens=3)
    assert patient.decide(2, EOS, MATCH) is None
    assert patient.decide(3, 5, MATCH) is not None


def test_stop_tokens_are_banned_only_for_min_new_tokens() -> None:
    assert rules(stop_token_ids=(COMMA,)).banned_ids() is None
    banned = rules(stop_token_ids=(COMMA,), min_new_tokens=1).banned_ids()
    assert banned is not None
    assert banned.tolist() == [COMMA, EOS]
    # As of a model without a token for the end.
    assert rules(ignore_eos=True, min_new_tokens=1).banned_ids() is None


def test_a_token_outside_the_vocabulary_is_our_fault() -> None:
    for token_id in (-1, 10):
        finish = rules().decide(1, token_id, None)
        assert finish is not None
        assert (finish.reason.type, finish.reason.status_code) == ("abort", 500)


def test_the_short_way_goes_on_only_where_all_the_rules_do() -> None:
    own = rules(5, min_new_tokens=3, stop_token_ids=(COMMA,))
    cases = [(num, token) for num in range(1, 7) for token in (-1, 0, COMMA, EOS, 10)]
    goes_on = [case for case in cases if own.goes_on(*case)]
    assert goes_on == [(num, 0) for num in range(1, 5)]
    assert [own.decide(*case, None) for case in goes_on] == [None] * 4
