"""The estimate of what answers will need."""

from dataclasses import replace

import pytest

from managers.scheduler.decode_reserve import (
    FIRST_SHARE,
    LEAST_PART,
    MAX_RESERVED_TOKENS,
    STEPS_TO_LEAST,
    DecodeReserve,
)
from managers.scheduler.request import Request
from tests.managers.scheduler.made_requests import memory, request


def certain(made: Request) -> Request:
    made.rules = replace(made.rules, can_stop_early=False)
    return made


def test_of_an_answer_that_may_end_early_a_share_counts() -> None:
    reserve = DecodeReserve()
    assert reserve.num_tokens(request(1, max_new_tokens=101)) == 70
    assert reserve.num_tokens(request(1, max_new_tokens=101, output_ids=[5] * 50)) == 35


def test_a_limit_that_means_no_limit_has_a_limit() -> None:
    assert DecodeReserve(9.0).num_tokens(request(1, max_new_tokens=10**9)) == MAX_RESERVED_TOKENS


def test_an_answer_that_cannot_end_early_counts_in_full_but_for_its_last_token() -> None:
    assert DecodeReserve(0.0).num_tokens(certain(request(1, max_new_tokens=10_000))) == 9_999


def test_the_tokens_that_must_come_count_whatever_the_share() -> None:
    made = request(1, max_new_tokens=100)
    made.rules = replace(made.rules, min_new_tokens=30)
    assert DecodeReserve(0.0).num_tokens(made) == 29


def test_an_answer_that_has_its_last_token_needs_nothing() -> None:
    assert DecodeReserve().num_tokens(request(1, max_new_tokens=0)) == 0


def test_the_share_shrinks_to_its_least_and_no_further() -> None:
    reserve = DecodeReserve()
    for _ in range(STEPS_TO_LEAST):
        assert reserve.share > FIRST_SHARE * LEAST_PART
        reserve.note_decoded()
    reserve.note_decoded()
    assert reserve.share == pytest.approx(FIRST_SHARE * LEAST_PART)


def test_conservativeness_scales_the_share_up_to_all() -> None:
    assert DecodeReserve(0.5).share == pytest.approx(FIRST_SHARE / 2)
    assert DecodeReserve(100.0).share == 1.0


def test_after_a_retraction_the_share_is_what_answers_turned_out_to_need() -> None:
    reserve = DecodeReserve(0.1)
    reserve.note_retracted([request(1, max_new_tokens=99, output_ids=[5] * 30)])
    assert reserve.share == pytest.approx(0.5)
    reserve.note_retracted([request(1, max_new_tokens=9, output_ids=[5] * 8)])
    assert reserve.share == 1.0


def test_a_retraction_never_makes_it_more_hopeful() -> None:
    reserve = DecodeReserve()
    reserve.note_retracted([request(1, max_new_tokens=4000)])
    assert reserve.share == pytest.approx(FIRST_SHARE)


def test_when_all_have_left_it_begins_anew() -> None:
    reserve = DecodeReserve()
    reserve.note_decoded()
    reserve.note_idle()
    assert reserve.share == FIRST_SHARE


def test_slots_are_counted_in_whole_pages() -> None:
    made = certain(request(1, prompt_len=5, max_new_tokens=5))  # 9 tokens of KV
    assert DecodeReserve().num_slots(made, memory(64, page_size=4)) == 12
