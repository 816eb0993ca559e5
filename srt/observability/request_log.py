"""Where lines about single requests go (`--log-requests-target`): the log, standard output, or a folder.

A folder gets one file a process, of JSON lines, begun anew every hour. A thread writes it, so that a slow disk holds up
nobody; if it is so slow that lines pile up, they are dropped and counted.
"""

import logging
import logging.handlers
import multiprocessing
import queue
import sys
import tempfile
from pathlib import Path

from srt.errors import StartupError
from srt.observability.log_stream import LogStream
from srt.observability.logging import make_formatter

logger = logging.getLogger(__name__)

LOG, STDOUT = "log", "stdout"
NAME = "lockstep.requests"
MAX_WAITING_LINES = 10_000
KEPT_HOURS = 7 * 24


def check_target(target: str) -> None:
    """Raise StartupError if it is a folder that cannot be written."""
    if target in (LOG, STDOUT):
        return
    folder = Path(target)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # Not os.access: only writing tells.
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise StartupError(f"--log-requests-target: {target} cannot be written: {error.strerror}") from None


def open_request_log(target: str, log_format: str) -> logging.Logger:
    """The logger of these lines. The last call wins. Raises StartupError when the folder cannot be written."""
    logger = logging.getLogger(NAME)
    for handler in logger.handlers[:]:
        logger.removeHandler(handler)
        handler.close()
    logger.propagate = target == LOG
    logger.setLevel(logging.INFO)
    if target != LOG:
        logger.addHandler(_stdout(log_format) if target == STDOUT else FileLines(Path(target)))
    return logger


def _stdout(log_format: str) -> logging.Handler:
    handler = LogStream(sys.stdout)
    handler.setFormatter(make_formatter(_process_name(), log_format))
    return handler


def _process_name() -> str:
    name = multiprocessing.current_process().name
    return "main" if name == "MainProcess" else name


class _File(logging.handlers.TimedRotatingFileHandler):
    """While it cannot be written, a full disk for one, lines are lost; the log says so once, and when it is over."""

    _num_lost = 0
    _has_failed = False

    def emit(self, record: logging.LogRecord) -> None:
        """Write one line, or lose it."""
        self._has_failed = False
        super().emit(record)
        if self._num_lost and not self._has_failed:
            logger.warning("the request log is written again; %d lines are lost", self._num_lost)
            self._num_lost = 0

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 (logging's own name)
        """Not a traceback a line."""
        if not self._num_lost:
            logger.warning("the request log cannot be written: %s", sys.exception())
        self._num_lost += 1
        self._has_failed = True


class FileLines(logging.handlers.QueueHandler):
    """Hands lines to a thread, which writes them."""

    def __init__(self, folder: Path) -> None:
        lines: queue.Queue[logging.LogRecord] = queue.Queue(MAX_WAITING_LINES)
        super().__init__(lines)
        self.num_dropped = 0
        path = folder / f"requests-{_process_name()}.jsonl"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            file = _File(path, when="h", backupCount=KEPT_HOURS, encoding="utf-8", utc=True)
        except OSError as error:
            raise StartupError(f"--log-requests-target: {path} cannot be written: {error.strerror}") from None
        file.setFormatter(make_formatter(_process_name(), "json"))
        self._file = file
        self._thread = logging.handlers.QueueListener(lines, file)
        self._thread.start()

    def prepare(self, record: logging.LogRecord) -> logging.LogRecord:
        """As it is: it stays in this process."""
        return record

    def enqueue(self, record: logging.LogRecord) -> None:
        """Drop it rather than wait."""
        try:
            self.queue.put_nowait(record)
        except queue.Full:
            self.num_dropped += 1
            return
        if self.num_dropped:
            logger.warning("%d lines were dropped: the request log is too slow", self.num_dropped)
            self.num_dropped = 0

    def close(self) -> None:
        """Write what is left."""
        self._thread.stop()
        self._file.close()
        super().close()
