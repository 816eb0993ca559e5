"""Where tokens begin in their text, and when they are given out."""

import codecs
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srt.engine_client import FinishReason, GenerateChunk
from srt.entrypoints.openai.released_tokens import ReleasedTokens, TextOffsets, TokenRelease, prompt_tokens
from tests.fakes.engine_client import LENGTH, STOP
from tests.fakes.told_chunks import logprobs_of_prompt, told

STOPPED = FinishReason(type="stop", matched="END")


def one_byte(token_id: int) -> bytes:
    return bytes([token_id])


def offsets_of(pieces: Sequence[bytes], start: int = 0) -> list[int]:
    offsets = TextOffsets(lambda token_id: pieces[token_id], start=start)
    return [offsets.add(i) for i in range(len(pieces))]


@pytest.mark.parametrize(
    ("pieces", "offsets"),
    [
        ([b"ab", b"c", b" d"], [0, 2, 3]),
        (["ü".encode(), b"x"], [0, 1]),
        ([b"a\xf0\x9f", b"\x98", b"\x80b", b"c"], [0, 1, 1, 3]),
        ([b"\xe2\x82", b"x", b"y"], [0, 1, 2]),  # broken off: U+FFFD, then x
        ([b"\xe2\x82", b"\xe2\x82", b"\xac"], [0, 1, 1]),
        ([b"\xe0", b"\x80", b"z"], [0, 1, 2]),
        ([b"\xef\xbf", b"\xbd", b"z"], [0, 0, 1]),  # a U+FFFD that is meant
        ([b"a", b"", b"b"], [0, 1, 1]),  # a special token that is left out
        ([b"\xe2", b"", b"\x82\xac"], [0, 0, 0]),
    ],
)
def test_a_token_begins_where_its_first_character_does(pieces: list[bytes], offsets: list[int]) -> None:
    assert offsets_of(pieces) == offsets
    assert offsets_of(pieces, start=7) == [offset + 7 for offset in offsets]


@given(st.lists(st.binary(max_size=3), max_size=12))
def test_offsets_are_what_decoding_the_bytes_before_says(pieces: list[bytes]) -> None:
    text = b"".join(pieces).decode(errors="replace")
    offsets = offsets_of(pieces)
    assert offsets == sorted(offsets)
    before = b""
    for piece, offset in zip(pieces, offsets, strict=True):
        utf8 = codecs.getincrementaldecoder("utf-8")("replace")
        num_whole = len(utf8.decode(before))
        # Within a character it begins with that; otherwise behind all that came before it.
        assert offset - num_whole in ((0, 1) if utf8.getstate()[0] else (0,))
        if piece:
            assert offset < len(text)
        before += piece


def given_out(chunks: Sequence[GenerateChunk], *, keeps_stop_token: bool = False) -> list[str]:
    """The tokens that each chunk gives out, as bytes."""
    release = TokenRelease(one_byte, keeps_stop_token=keeps_stop_token)
    return [bytes(release.add(chunk).token_ids).decode("latin-1") for chunk in chunks]


def test_tokens_come_with_the_text_that_they_begin_in() -> None:
    # "EN" may be the beginning of a stop string; then it was none.
    chunks = [told("ab"), told("", token_ids=b"EN"), told("ENd", token_ids=b"d"), told(finish=LENGTH)]
    assert given_out(chunks) == ["ab", "", "ENd", ""]


def test_half_a_character_waits_for_its_other_half() -> None:
    chunks = [told("", token_ids=b"\xc3"), told("ü", token_ids=b"\xbc"), told(finish=STOP)]
    assert given_out(chunks) == ["", "ü".encode().decode("latin-1"), ""]


def test_what_a_stop_string_cut_off_is_never_given_out() -> None:
    chunks = [told("a"), told("", token_ids=b"E"), told("", token_ids=b"ND", finish=STOPPED)]
    assert given_out(chunks) == ["a", "", ""]


def test_a_token_that_reaches_into_a_stop_string_belongs_to_the_answer() -> None:
    release = TokenRelease([b"a", b"bEN", b"D"].__getitem__)
    released = [
        release.add(c).token_ids
        for c in (
            told("a", token_ids=[0]),
            told("b", token_ids=[1]),
            told("", token_ids=[2], finish=STOPPED),
        )
    ]
    assert released == [[0], [1], []]


@pytest.mark.parametrize(("keeps", "last"), [(False, ""), (True, "\x02")])
def test_the_stop_token_is_given_out_only_if_it_is_kept(keeps: bool, last: str) -> None:
    chunks = [told("a"), told("", token_ids=b"\x02", num_trimmed_tokens=1, finish=STOP)]
    assert given_out(chunks, keeps_stop_token=keeps) == ["a", last]


def test_at_the_end_all_that_is_left_comes() -> None:
    # A special token that is no text, and half a character that became U+FFFD.
    release = TokenRelease(lambda i: b"" if i == 1 else bytes([i]))
    assert release.add(told("a", token_ids=[97, 1])).token_ids == [97]
    assert release.add(told("�", token_ids=[0xC3], finish=LENGTH)).token_ids == [1, 0xC3]


def test_merged_chunks_give_out_what_single_ones_do() -> None:
    one = TokenRelease(one_byte).add(told("abc", finish=STOP))
    several = ReleasedTokens()
    release = TokenRelease(one_byte)
    for c in (told("a"), told("b"), told("c", finish=STOP)):
        several.extend(release.add(c))
    assert one == several


def test_a_prompts_tokens_are_placed_in_its_text() -> None:
    pieces = [b"<s>", b" Hi", b" you"]
    prompt = logprobs_of_prompt([0, 1, 2], 0)
    shown = prompt_tokens(prompt, "Hi you", lambda i: b"" if i == 0 else pieces[i])
    # The BOS is left out of the text, and so is the space that this tokenizer writes in front.
    assert shown.offsets == [0, 0, 2]
    assert shown.logprobs == [None, -1.0, -2.0]
