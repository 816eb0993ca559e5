"""What of a text may stand in a log."""

import pytest

from srt.observability.redaction import redact

FILE = "A" * 200


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Authorization: Bearer abc.def-123456", "Authorization: Bearer ***"),
        ('{"api_key": "0123456789"}', '{"api_key": "***"}'),
        ("password=hunter2hunter2 and more", "password=*** and more"),
        ("use sk-abcdefghijklmnop1234 here", "use *** here"),
        ("hf_ABCDEFGHIJKLMNOPQRST", "***"),
        (f"look: data:image/png;base64,{FILE}==", "look: data:image/png;base64,***"),
        ("a token of my esteem; the bearer: of news", "a token of my esteem; the bearer: of news"),
    ],
)
def test_credentials_and_files_are_left_out(text: str, shown: str) -> None:
    assert redact(text, None) == shown


def test_a_long_text_is_cut_and_says_so() -> None:
    assert redact("abcdefghij", 4) == "abcd… (10 characters in all)"
    assert redact("abcd", 4) == "abcd"


def test_a_credential_at_the_cut_is_left_out_whole() -> None:
    assert "secret" not in redact("Bearer " + "secretsecret" * 3 + "x" * 50, 12)
