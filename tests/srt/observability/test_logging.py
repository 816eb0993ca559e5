"""The one log format."""

import logging
import re
from collections.abc import Iterator

import pytest

from srt.observability.logging import configure_logging


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
