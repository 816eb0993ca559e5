"""The one log format."""

import json
import logging
import re
from collections.abc import Iterator

import pytest

from srt.observability.logging import configure_logging, fields


@pytest.fixture(autouse=True)
def _leave_logging_as_it_was() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.captureWarnings(False)


def test_a_line_says_when_who_how_bad_and_what(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("scheduler_TP1", "info")
    logging.getLogger("any.module").warning("%d slots are gone", 3)
    line = capsys.readouterr().err
    assert re.fullmatch(
        r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} scheduler_TP1 WARNING 3 slots are gone\n", line
    )


def test_what_is_less_severe_than_asked_for_is_not_shown(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("main", "warning")
    logging.getLogger("any.module").info("hello")
    assert capsys.readouterr().err == ""


def test_configuring_again_shows_every_line_once(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("main", "info")
    configure_logging("detokenizer", "info")
    logging.getLogger("any.module").info("hello")
    assert capsys.readouterr().err.count("hello") == 1


def test_what_stands_beside_the_words_follows_them(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("main", "info")
    logging.getLogger("any").info("slow request", extra=fields(path="/a b", seconds=1.5))
    assert capsys.readouterr().err.endswith('slow request path="/a b" seconds=1.5\n')


def test_json_lines_hold_everything_and_stay_lines(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("main", "info", "json")
    try:
        raise ValueError("two\nlines")
    except ValueError:
        logging.getLogger("any").exception("it\nfailed", extra=fields(path="/a"))
    (line,) = capsys.readouterr().err.splitlines()
    told = json.loads(line)
    assert told["exception"].endswith("ValueError: two\nlines\n")
    del told["exception"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00", told.pop("time"))
    assert told == {
        "process": "main",
        "level": "error",
        "logger": "any",
        "message": "it\nfailed",
        "path": "/a",
    }


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_what_is_no_text_is_logged_all_the_same(capsys: pytest.CaptureFixture[str], log_format: str) -> None:
    configure_logging("main", "info", log_format)
    logging.getLogger("any").info("hello", extra=fields(half="\ud800", thing=object()))
    assert "hello" in capsys.readouterr().err
