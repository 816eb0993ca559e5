"""Where JSON ends, and what is none: the standard library's parser is the judge."""

import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from srt.parsers.json_scanner import JsonScanner, escape_controls

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
# Nearly JSON: what is put together of these is sometimes some.
SHREDS = st.lists(
    st.sampled_from([*'{}[],:"\\ \n01-.eE+', "true", "nul", "null", '"a"', "\\u00e9", "1.5e3"]), max_size=9
)


def judged(text: str) -> bool:
    try:
        json.loads(text, parse_constant=_refuse)
    except ValueError:
        return False
    return True


def _refuse(constant: str) -> None:
    raise ValueError(constant)


def scanned(pieces: list[str]) -> tuple[int, JsonScanner]:
    """How many characters a scanner takes, and the scanner."""
    scanner = JsonScanner()
    num_taken = 0
    for piece in pieces:
        end = scanner.scan(piece, 0)
        num_taken += end
        if end < len(piece):
            break
    return num_taken, scanner


def is_whole(text: str, pieces: list[str]) -> bool:
    num_taken, scanner = scanned(pieces)
    return num_taken == len(text) and scanner.may_end and not scanner.is_broken


@given(VALUES, st.sampled_from([None, 0, 2]), st.booleans(), st.text("x,] }\n", max_size=2))
@settings(max_examples=200, deadline=None)
def test_json_ends_where_it_ends(value: Any, indent: int | None, is_ascii: bool, behind: str) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=is_ascii)
    for pieces in ([text], list(text)):
        assert is_whole(text, pieces)
    if not isinstance(value, int | float) or isinstance(value, bool):
        assert scanned([text + behind])[0] == len(text)
    for place in range(len(text)):
        num_taken, scanner = scanned([text[:place]])
        assert (num_taken, scanner.is_broken) == (place, False)
        assert scanner.may_end == judged(text[:place])


@given(SHREDS)
@example(["[", "01", "]"])
@example(["1.", "5"])
@example(["-"])
@example(["{", '"a"', ":", "1", ",", "}"])
@settings(max_examples=500, deadline=None)
def test_what_is_no_json_is_none(shreds: list[str]) -> None:
    text = "".join(shreds).rstrip()
    # The scanner mends raw line breaks in strings; the judge does not.
    expected = judged(text) or (judged(text.replace("\n", "\\n")) and "\n" in text)
    whole = [is_whole(text, [text]), is_whole(text, list(text))]
    if judged(text):
        assert whole == [True, True]
    elif not expected:
        assert whole == [False, False]
    assert whole[0] == whole[1]


@given(st.text('ab\n\t\x00\\"é', max_size=12), st.integers(0, 12))
@settings(max_examples=200, deadline=None)
def test_control_characters_in_strings_are_mended(inner: str, place: int) -> None:
    spelled = inner.replace("\\", "\\\\").replace('"', '\\"')
    text = f'{{\n"{spelled}":\t"{spelled}"}}'
    scanner = JsonScanner()
    mended = ""
    for piece in (text[:place], text[place:]):
        assert scanner.scan(piece, 0) == len(piece)
        mended += escape_controls(piece, scanner.raw_controls)
    assert scanner.is_whole
    assert json.loads(mended) == {inner: inner}


@pytest.mark.parametrize(
    "text", ["[1}", '{"a":1]', "{1:2}", "[,]", "[1,]", "NaN", "'a'", '"\\x"', '"\\u12g4"', "tru]"]
)
def test_it_stops_at_the_character_that_breaks_it(text: str) -> None:
    num_taken, scanner = scanned([text])
    assert scanner.is_broken
    assert not judged(text)
    assert not scanned([text[:num_taken]])[1].is_broken
    assert scanned(list(text))[0] == num_taken
