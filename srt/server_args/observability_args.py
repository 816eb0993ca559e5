"""What the server says about its work."""

from dataclasses import dataclass

from srt.server_args.flag import flag


@dataclass(frozen=True, kw_only=True)
class ObservabilityArgs:
    """Logging flags."""

    log_level: str = flag(
        "info", help="Least severe log line that is shown.", choices=("debug", "info", "warning", "error")
    )
    decode_log_interval: int = flag(40, help="Decode steps between two decode log lines.")
    watchdog_timeout: float = flag(
        60.0, help="Seconds without a sign of life from the scheduler after which /health fails."
    )
