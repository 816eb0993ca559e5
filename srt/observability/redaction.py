"""What of a text may stand in a log: no keys, no files, and not more of it than asked for."""

import re

# What looks like a credential, with the word that says so; the word stays. And what is a file, written as text.
_SECRETS = re.compile(
    r"(?P<word>\b(?:bearer|basic)\s+|\b(?:api[_-]?key|token|secret|password|passwd)\b[\"']?\s*[:=]\s*[\"']?)"
    r"[\w\-.~+/=]{6,}"
    r"|\b(?:sk|pk|rk|ghp|gho|hf|xox[bp])[-_][\w\-]{16,}",
    re.IGNORECASE,
)
_FILES = re.compile(r"data:(?P<type>[\w.+-]+/[\w.+-]+);base64,[A-Za-z0-9+/=]{64,}")


def redact(text: str, max_chars: int | None) -> str:
    """The text without credentials and files, and at most so many characters of it; None: all of them."""
    shown = (
        text if max_chars is None else text[: max_chars + 1024]
    )  # looking through all of it would take long
    shown = _FILES.sub(r"data:\g<type>;base64,***", shown)
    shown = _SECRETS.sub(lambda match: (match["word"] or "") + "***", shown)
    if max_chars is None or len(text) <= max_chars:
        return shown
    return f"{shown[:max_chars]}… ({len(text)} characters in all)"
