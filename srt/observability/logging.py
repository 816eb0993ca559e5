"""One log format for every process: when, which process, how bad, what; as a line to read, or as a JSON object.

Lines go to standard error. Every file logs to its own `logging.getLogger(__name__)`. What a line says beside its words
is given as `extra=fields(name=value, …)`: members of the JSON object, or `name=value` behind the words.
"""

import logging
import sys
import traceback
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import orjson

from srt.observability.log_stream import LogStream

# Talkative neighbours: what they say at INFO is not about a request or a decision of ours.
_QUIET_LOGGERS = ("asyncio", "uvicorn.access", "uvicorn.error", "httpx", "filelock", "urllib3")
_KEY = "fields"


def fields(**values: Any) -> Mapping[str, Any]:
    """The `extra` of a log call. Values are what JSON can say."""
    return {_KEY: values}


def configure_logging(process_name: str, level: str, log_format: str = "text") -> None:
    """Show lines of `level` and worse, each with the name of this process. The last call wins."""
    handler = LogStream(sys.stderr)
    handler.setFormatter(make_formatter(process_name, log_format))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for name in _QUIET_LOGGERS:
        logging.getLogger(name).setLevel(logging.WARNING)
    logging.captureWarnings(True)


def make_formatter(process_name: str, log_format: str) -> logging.Formatter:
    """`log_format` is "text" or "json"."""
    return JsonLines(process_name) if log_format == "json" else TextLines(process_name)


class TextLines(logging.Formatter):
    """A line to read. What was given beside the words stands behind them."""

    def __init__(self, process_name: str) -> None:
        super().__init__(
            f"%(asctime)s.%(msecs)03d {process_name:<13} %(levelname)-7s %(message)s",
            datefmt="%Y-%m-%d %H:%M:%S",
        )

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 (logging's own name)
        """The line without a traceback."""
        line = super().formatMessage(record)
        values = _fields_of(record)
        return " ".join([line, *(f"{name}={_dump(value)}" for name, value in values.items())])


class JsonLines(logging.Formatter):
    """One JSON object a line: time (UTC), process, level, logger, message, then what was given beside the words."""

    def __init__(self, process_name: str) -> None:
        super().__init__()
        self._process_name = process_name

    def format(self, record: logging.LogRecord) -> str:
        """The whole line."""
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "process": self._process_name,
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **_fields_of(record),
        }
        if record.exc_info:
            line["exception"] = "".join(traceback.format_exception(*record.exc_info))
        return _dump(line)


def _fields_of(record: logging.LogRecord) -> Mapping[str, Any]:
    values: Mapping[str, Any] = getattr(record, _KEY, {})
    return values


def _dump(value: Any) -> str:
    try:
        return orjson.dumps(value, default=str, option=orjson.OPT_NON_STR_KEYS).decode()
    except TypeError:  # half of a surrogate pair, for one
        return orjson.dumps(repr(value)).decode()
