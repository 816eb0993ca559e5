"""`LogStream`: log lines to standard error or output, which may be full, stuck or gone; no request waits for it.

A line is written at once if that can be done without waiting. If the other side of a pipe does not read, lines wait
for it in a thread, up to a limit. What cannot be written is counted, and the log says so, once, as soon as it can.
"""

import contextlib
import logging
import os
import select
import stat
import sys
import threading
from collections import deque
from collections.abc import Callable
from typing import TextIO

MAX_WAITING_BYTES = 16 * 1024 * 1024
# As much as a pipe takes at once, or says that it has no room for.
AT_ONCE_BYTES = select.PIPE_BUF
# How long the end of the process waits for a reader.
FLUSH_S = 1.0


class LogStream(logging.Handler):
    """Writes to the descriptor of `stream`, past its buffer; to a stream without one, as to any file."""

    def __init__(self, stream: TextIO | None) -> None:
        super().__init__()
        self._write: Callable[[bytes], None] = _to_nowhere
        self._descriptor: int | None = None
        self._is_file = False
        # All below changes under this lock, which nobody holds while a write may wait.
        self._has_changed = threading.Condition()
        self._waiting: deque[bytes] = deque()
        self._num_waiting_bytes = 0
        self._thread: threading.Thread | None = None
        self._num_lost = 0
        self._why_lost = ""
        if stream is not None:
            self._open(stream)

    def emit(self, record: logging.LogRecord) -> None:
        """Never raises and never waits."""
        try:
            line = self._line(record)
        except Exception:  # noqa: BLE001 - as with every handler: a line that cannot be made harms nobody
            self.handleError(record)
            return
        with self._has_changed:
            if self._waiting or not self._can_write_at_once(len(line)):
                self._let_wait(line)
            else:
                self._tell_of_lost()
                self._write_or_lose(line)

    def flush(self) -> None:
        """Wait for the thread, for a while."""
        with self._has_changed:
            self._has_changed.wait_for(lambda: not self._waiting, FLUSH_S)

    def _open(self, stream: TextIO) -> None:
        def to_stream(line: bytes) -> None:
            stream.write(line.decode())
            stream.flush()

        def to_descriptor(line: bytes) -> None:
            while line:
                line = line[os.write(descriptor, line) :]

        self._write = to_stream
        with contextlib.suppress(OSError, ValueError):  # it is closed, or has no descriptor at all
            descriptor = stream.fileno()
            self._is_file = stat.S_ISREG(os.fstat(descriptor).st_mode)
            self._descriptor = descriptor
            self._write = to_descriptor

    def _line(self, record: logging.LogRecord) -> bytes:
        return (self.format(record) + "\n").encode("utf-8", "backslashreplace")

    def _can_write_at_once(self, num_bytes: int) -> bool:
        if self._descriptor is None or self._is_file:
            return True
        poll = select.poll()
        poll.register(self._descriptor, select.POLLOUT)
        # A pipe without a reader is ready, too: to say so.
        return num_bytes <= AT_ONCE_BYTES and bool(poll.poll(0))

    def _let_wait(self, line: bytes) -> None:
        if self._num_waiting_bytes + len(line) > MAX_WAITING_BYTES:
            self._lose(1, "nobody reads it")
            return
        self._waiting.append(line)
        self._num_waiting_bytes += len(line)
        if self._thread is None:
            self._thread = threading.Thread(target=self._write_waiting, name="log", daemon=True)
            self._thread.start()
        self._has_changed.notify_all()

    def _write_waiting(self) -> None:
        while True:
            with self._has_changed:
                self._has_changed.wait_for(lambda: self._waiting)
                line = self._waiting[0]
            self._write_or_lose(line)
            if len(self._waiting) == 1:  # what was lost came behind those that wait
                self._tell_of_lost()
            with self._has_changed:
                self._num_waiting_bytes -= len(self._waiting.popleft())
                self._has_changed.notify_all()

    def _tell_of_lost(self) -> None:
        with self._has_changed:
            num_lost, why = self._num_lost, self._why_lost
            self._num_lost = 0
        if num_lost:
            self._write_or_lose(self._line(_note(num_lost, why)), num_lines=num_lost)

    def _write_or_lose(self, line: bytes, *, num_lines: int = 1) -> None:
        try:
            self._write(line)
        except OSError as error:
            self._lose(num_lines, error.strerror or str(error))
        except ValueError as error:  # a closed file
            self._lose(num_lines, str(error))

    def _lose(self, num_lines: int, why: str) -> None:
        with self._has_changed:
            self._num_lost += num_lines
            self._why_lost = why


def _note(num_lost: int, why: str) -> logging.LogRecord:
    said = f"{num_lost} lines could not be written to the log: {why}"
    return logging.LogRecord(__name__, logging.WARNING, __file__, 0, said, None, None)


def _to_nowhere(line: bytes) -> None:
    pass


def hold_standard_streams() -> None:
    """Put /dev/null where this process was started without input, output or error.

    Else the next file or socket would get that number, and what is written to standard error would go there.
    """
    for descriptor, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(descriptor)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)
            if opened != descriptor:
                os.dup2(opened, descriptor)
                os.close(opened)
            os.set_inheritable(descriptor, True)
        if getattr(sys, name) is None:
            # Stays open for good.
            setattr(sys, name, open(descriptor, "r" if name == "stdin" else "w", closefd=False))  # noqa: SIM115
