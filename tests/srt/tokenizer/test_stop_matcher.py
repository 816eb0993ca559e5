from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srt.tokenizer.stop_matcher import StopMatch, StopMatcher


def naive_match(stops: Sequence[str], text: str) -> StopMatch | None:
    """What stops generation, tried one character after another."""
    for end in range(1, len(text) + 1):
        found = [stop for stop in stops if text[:end].endswith(stop)]
        if found:
            longest = max(found, key=len)
            return StopMatch(longest, end - len(longest), end)
    return None


def naive_held_back(stops: Sequence[str], text: str) -> int:
    lengths = (k for stop in stops for k in range(1, len(stop)) if text.endswith(stop[:k]))
    return max(lengths, default=0)


# Two letters make overlaps, borders and near misses likely.
texts = st.text("ab", max_size=40)
stop_lists = st.lists(st.text("ab", min_size=1, max_size=7), min_size=1, max_size=4)


@given(stop_lists, st.lists(texts, max_size=8))
def test_the_first_match_is_the_naive_one_wherever_the_text_is_cut(
    stops: list[str], pieces: list[str]
) -> None:
    matcher = StopMatcher(stops)
    found = next((match for piece in pieces if (match := matcher.push(piece)) is not None), None)
    assert found == naive_match(stops, "".join(pieces))


@given(stop_lists, st.lists(texts, max_size=8))
def test_what_is_held_back_is_the_naive_amount_after_every_piece(stops: list[str], pieces: list[str]) -> None:
    matcher = StopMatcher(stops)
    text = ""
    for piece in pieces:
        matcher.push(piece)
        text += piece
        assert matcher.num_held_back == naive_held_back(stops, text)


@given(stop_lists, st.lists(texts, max_size=8))
def test_what_was_let_out_never_holds_a_part_of_the_match(stops: list[str], pieces: list[str]) -> None:
    matcher = StopMatcher(stops)
    num_seen = num_let_out = 0
    for piece in pieces:
        match = matcher.push(piece)
        if match is not None:
            assert num_let_out <= match.start
            return
        num_seen += len(piece)
        num_let_out = num_seen - matcher.num_held_back


def test_a_match_says_where_it_is_in_the_whole_text() -> None:
    matcher = StopMatcher(["\n\nUser:"])
    assert matcher.push("Hello.") is None
    assert matcher.push("\n") is None
    assert matcher.push("\nUser: hi") == StopMatch("\n\nUser:", 6, 13)


def test_the_match_that_ends_first_wins_over_one_that_began_earlier() -> None:
    assert StopMatcher(["abcdef", "cd"]).push("abcdef") == StopMatch("cd", 2, 4)


@pytest.mark.parametrize("stops", [["c", "abc", "bc"], ["abc", "bc", "c"]])
def test_of_matches_that_end_together_the_longest_wins(stops: list[str]) -> None:
    assert StopMatcher(stops).push("abc") == StopMatch("abc", 0, 3)


def test_text_goes_on_behind_a_match_that_did_not_count() -> None:
    matcher = StopMatcher(["aa"])
    assert matcher.push("aa") == StopMatch("aa", 0, 2)
    assert matcher.push("b") is None
    assert matcher.push("aa") == StopMatch("aa", 3, 5)


def test_a_long_stop_holds_back_only_what_really_matches() -> None:
    matcher = StopMatcher(["x" + "y" * 299])
    matcher.push("hello ")
    assert matcher.num_held_back == 0
    matcher.push("xyy")
    assert matcher.num_held_back == 3
    matcher.push(" ")
    assert matcher.num_held_back == 0


def test_no_stops_hold_nothing_back() -> None:
    matcher = StopMatcher([])
    assert matcher.push("text") is None
    assert matcher.num_held_back == 0


def test_work_is_linear_even_for_text_that_nearly_matches() -> None:
    comparisons = 0

    class CountingText(str):
        def __getitem__(self, key: object) -> str:
            nonlocal comparisons
            comparisons += 1
            return str.__getitem__(self, key)  # type: ignore[index]

    stop = CountingText("a" * 500 + "b")
    matcher = StopMatcher([stop])
    for _ in range(200):
        matcher.push("a" * 50)
    # Each character moves the match forward once and may undo one earlier step; the table costs as much again.
    assert comparisons < 6 * 200 * 50
