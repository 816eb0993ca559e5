"""The pages of the guide as tests read them: their text, and the commands that they show."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Snippet(NamedTuple):
    """A fenced block."""

    name: str  # page and number
    language: str
    code: str


def without_code(text: str) -> str:
    """A page's prose."""
    return re.sub(r"`[^`\n]*`", lambda code: code[0].replace("](", "] ("), FENCE.sub("", text))


def snippets(page: str) -> Iterator[Snippet]:
    """Those of one page, in their order."""
    for number, (language, code) in enumerate(FENCE.findall((ROOT / page).read_text(encoding="utf-8"))):
        yield Snippet(f"{page}:{number}", language, code)


def read_curl(command: str) -> tuple[str, dict[str, str], str | None]:
    """URL, headers and body, if there is one. Knows the options that the guide uses, and no others."""
    words = iter(shlex.split(command))
    assert next(words) == "curl"
    headers: dict[str, str] = {}
    url, body = "", None
    for word in words:
        match word:
            case "-s":
                pass
            case "-H":
                name, _, value = next(words).partition(": ")
                headers[name] = value
            case "-d":
                body = next(words)
            case _:
                assert not url
                assert word.startswith("http://")
                url = word
    return url, headers, body
