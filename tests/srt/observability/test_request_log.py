"""Where lines about single requests go."""

import json
import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from srt.errors import StartupError
from srt.observability.logging import fields
from srt.observability.request_log import FileLines, open_request_log


@pytest.fixture(autouse=True)
def _leave_it_as_it_was() -> Iterator[None]:
    yield
    open_request_log("log", "text")


def test_to_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    open_request_log("stdout", "json").info("request received", extra=fields(rid="mine"))
    assert json.loads(capsys.readouterr().out)["rid"] == "mine"


def test_opening_it_again_shows_every_line_once(capsys: pytest.CaptureFixture[str]) -> None:
    open_request_log("stdout", "text")
    open_request_log("stdout", "text").info("request received")
    assert capsys.readouterr().out.count("request received") == 1


def test_a_folder_that_cannot_be_written_is_said_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StartupError, match="--log-requests-target"):
        open_request_log(str(tmp_path / "file"), "text")


def test_a_full_disk_is_said_once_and_so_is_its_end(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    lines = FileLines(tmp_path)
    file = lines._file.stream
    descriptor = os.dup(file.fileno())
    with open("/dev/full", "w") as full:
        os.dup2(full.fileno(), file.fileno())
    for _ in range(3):
        lines._file.handle(logging.makeLogRecord({"msg": "hello"}))
    os.dup2(descriptor, file.fileno())
    os.close(descriptor)
    lines._file.handle(logging.makeLogRecord({"msg": "here again"}))
    lines.close()
    assert [record.getMessage() for record in caplog.records] == [
        "the request log cannot be written: [Errno 28] No space left on device",
        "the request log is written again; 3 lines are lost",
    ]
    assert "here again" in (tmp_path / "requests-main.jsonl").read_text()


def test_lines_for_which_there_is_no_room_are_dropped_and_counted(tmp_path: Path) -> None:
    lines = FileLines(tmp_path)
    lines._thread.stop()
    for _ in range(10_005):
        lines.enqueue(logging.makeLogRecord({}))
    assert lines.num_dropped == 5
    lines.queue.get_nowait()
    lines._thread.start()
    lines.close()
