"""What every flag owes its user."""

import re
from collections import Counter
from pathlib import Path

import pytest

import write_flag_docs
from srt.server_args.cli import Flag, flag_groups

ROOT = Path(__file__).parents[2]
FLAGS = [flag for group in flag_groups() for flag in group.flags]


@pytest.mark.parametrize("flag", FLAGS, ids=lambda flag: flag.name)
def test_a_flag_is_explained_in_sentences(flag: Flag) -> None:
    assert re.fullmatch(r"[A-Z].*\.", flag.info.help), flag.info.help


@pytest.mark.parametrize("flag", FLAGS, ids=lambda flag: flag.name)
def test_a_default_is_a_value_that_one_could_type(flag: Flag) -> None:
    assert flag.default is None or type(flag.default) is flag.value_type
    assert flag.info.choices is None or flag.default in flag.info.choices


def test_no_two_flags_are_spelled_alike() -> None:
    spellings = Counter(spelling for flag in FLAGS for spelling in (flag.option, *flag.info.aliases))
    assert [spelling for spelling, count in spellings.items() if count > 1] == []


def test_every_flag_is_read_by_somebody() -> None:
    """A flag that changes nothing is worse than none."""
    code = "\n".join(
        path.read_text(encoding="utf-8")
        for folder in ("srt", "managers")
        for path in (ROOT / folder).rglob("*.py")
        if "server_args" not in path.parts
    ) + (ROOT / "launch_server.py").read_text(encoding="utf-8")
    assert [flag.name for flag in FLAGS if not re.search(rf"\.{flag.name}\b", code)] == []


def test_the_flag_page_is_up_to_date() -> None:
    assert write_flag_docs.PAGE.read_text(encoding="utf-8") == write_flag_docs.render_page()
