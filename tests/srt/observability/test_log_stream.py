"""Log lines where they cannot go: whoever logs goes on, and the log says what is missing."""

import fcntl
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest

from srt.observability.log_stream import MAX_WAITING_BYTES, LogStream

ROOT = Path(__file__).parents[3]


@contextmanager
def logged_to(stream: IO[str]) -> Iterator[logging.Logger]:
    logger = logging.Logger("mine")
    handler = LogStream(stream)
    logger.addHandler(handler)
    yield logger
    handler.close()


def test_a_pipe_that_nobody_reads_holds_up_nobody_and_gets_every_line_once_it_is_read() -> None:
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4096)
    lines = [f"line {i} {'.' * 90}\n" for i in range(500)]
    with os.fdopen(writing, "w") as stream, logged_to(stream) as logger:
        for line in lines:
            logger.info(line.rstrip("\n"))
        with os.fdopen(reading) as read:
            assert [read.readline() for _ in lines] == lines


def test_what_waits_for_a_reader_has_a_limit_and_the_log_says_what_is_missing() -> None:
    reading, writing = os.pipe()
    megabyte = "." * 2**20
    num_lines = MAX_WAITING_BYTES // 2**20 + 3
    with os.fdopen(writing, "w") as stream, logged_to(stream) as logger:
        for _ in range(num_lines):
            logger.info(megabyte)
        with os.fdopen(reading) as read:
            held = [read.readline() for _ in range(num_lines - 4)]
            assert set(held) == {megabyte + "\n"}
            assert read.readline() == "4 lines could not be written to the log: nobody reads it\n"
            logger.info("here again")
            assert read.readline() == "here again\n"


def test_a_full_disk_costs_lines_and_the_log_says_how_many(tmp_path: Path) -> None:
    with open("/dev/full", "w") as stream, logged_to(stream) as logger:
        for _ in range(3):
            logger.info("hello")
        with (tmp_path / "log").open("w") as room:
            os.dup2(room.fileno(), stream.fileno())
        logger.info("here again")
        logger.info("and again")
    assert (tmp_path / "log").read_text() == (
        "3 lines could not be written to the log: No space left on device\nhere again\nand again\n"
    )


def test_a_pipe_whose_reader_is_gone_is_as_good_as_none() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as stream, logged_to(stream) as logger:
        logger.info("hello")


def test_a_closed_stream_is_as_good_as_none(tmp_path: Path) -> None:
    with (tmp_path / "log").open("w") as stream:
        pass
    with logged_to(stream) as logger:
        logger.info("hello")


def test_lines_of_many_threads_stay_whole() -> None:
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4096)
    with os.fdopen(writing, "w") as stream, logged_to(stream) as logger:

        def log(name: str) -> None:
            for _ in range(50):
                logger.info(name * 60)

        threads = [threading.Thread(target=log, args=(name,)) for name in "abcd"]
        for thread in threads:
            thread.start()
        with os.fdopen(reading) as read:
            lines = [read.readline() for _ in range(200)]
        for thread in threads:
            thread.join()
    assert {line: lines.count(line) for line in set(lines)} == {f"{name * 60}\n": 50 for name in "abcd"}


@pytest.mark.parametrize("closed", [(2,), (0, 1, 2)])
def test_a_process_without_standard_streams_gets_them_before_a_socket_does(closed: tuple[int, ...]) -> None:
    code = (
        "import socket, os, sys; from srt.observability.log_stream import hold_standard_streams;"
        "hold_standard_streams(); print('to nowhere', file=sys.stderr);"
        "taken = [socket.socket().fileno(), os.stat(2).st_rdev == os.stat('/dev/null').st_rdev];"
        "sys.exit(7 if taken[0] > 2 and taken[1] else 8)"
    )

    def close() -> None:
        for descriptor in closed:
            os.close(descriptor)

    ended = subprocess.run([sys.executable, "-c", code], cwd=ROOT, preexec_fn=close, check=False)
    assert ended.returncode == 7
