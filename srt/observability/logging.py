"""One log format for every process: when, which process, how bad, what.

Lines go to standard error. Every file logs to its own `logging.getLogger(__name__)`.
"""

import logging
import sys

# Talkative neighbours: what they say at INFO is not about a request or a decision of ours.
_QUIET_LOGGERS = ("asyncio", "uvicorn.access", "uvicorn.error", "httpx", "filelock")


def configure_logging(process_name: str, level: str) -> None:
    """Show lines of `level` and worse, each with the name of this process. The last call wins."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        logging.Formatter(
            f"%(asctime)s.%(msecs)03d {process_name:<13} %(levelname)-7s %(message)s",
            datefmt="%Y-%m-%d %H:%M:%S",
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for name in _QUIET_LOGGERS:
        logging.getLogger(name).setLevel(logging.WARNING)
    logging.captureWarnings(True)
