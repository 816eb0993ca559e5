"""The flags as typed: what is wrong with them, all at once, and what of them may be shown.

Looks at no file and no device; what depends on the model or the machine is decided in srt/runtime_plan/.
"""

import math
import re
from collections.abc import Iterator, Sequence

from srt.errors import StartupError
from srt.server_args.cli import flag_groups
from srt.server_args.cors_origins import parse_origins
from srt.server_args.model_args import MOCK
from srt.server_args.server_args import ServerArgs
from srt.server_args.trace_endpoint import traces_url

LARGEST_PORT = 65535
AT_LEAST_ONE = (
    "context_length",
    "cpu_threads",
    "decode_log_interval",
    "dp_size",
    "grammar_compile_memory_mb",
    "max_body_bytes",
    "max_running_requests",
    "max_total_tokens",
    "page_size",
    "stream_interval",
    "tokenizer_worker_num",
    "tp_size",
)
# Idle ranks hear from rank 0 once a second (managers/scheduler/event_loop.py), on a busy machine later.
LEAST_DIST_TIMEOUT_S = 5
# An idle process gives a sign of life once a second (managers/pulses.py).
LEAST_WATCHDOG_TIMEOUT_S = 2
AT_LEAST_ZERO = (
    "drain_timeout",
    "max_queued_requests",
    "mock_step_ms",
    "priority_scheduling_preemption_threshold",
    "random_seed",
    "schedule_conservativeness",
)
ABOVE_ZERO = ("grammar_compile_timeout", "http_read_timeout")
ABOVE_ZERO_IF_SET = ("request_running_timeout", "request_waiting_timeout", "slow_request_threshold")
NOT_EMPTY = (
    *("api_key", "chat_template", "host", "log_requests_target", "model_path", "otlp_service_name"),
    *("served_model_name", "tokenizer_path"),
)
REDACTED = "***"


def check_args(args: ServerArgs) -> None:
    """Raise StartupError with every flag that is out of range or contradicts another."""
    problems = list(find_problems(args))
    if len(problems) == 1:
        raise StartupError(problems[0])
    if problems:
        raise StartupError(
            "these flags cannot be used:" + "".join(f"\n  - {problem}" for problem in problems)
        )


def public_flags(args: ServerArgs) -> dict[str, int | float | str | bool | None]:
    """Every flag by name, for /server_info and logs; a secret that is set shows as `***`."""
    shown = {}
    for group in flag_groups():
        for flag in group.flags:
            value = getattr(args, flag.name)
            shown[flag.name] = REDACTED if flag.info.secret and value is not None else value
    return shown


def find_problems(args: ServerArgs) -> Iterator[str]:
    """One sentence a problem."""
    yield from _choices(args)
    yield from _ranges(args, AT_LEAST_ONE, lowest=1)
    yield from _ranges(args, AT_LEAST_ZERO, lowest=0)
    yield from _ranges(args, ("dist_timeout",), lowest=LEAST_DIST_TIMEOUT_S)
    yield from _ranges(args, ("watchdog_timeout",), lowest=LEAST_WATCHDOG_TIMEOUT_S)
    for name in (
        *ABOVE_ZERO,
        "dist_timeout",
        "watchdog_timeout",
        "drain_timeout",
        "mock_step_ms",
        "schedule_conservativeness",
    ):
        if not math.isfinite(getattr(args, name)):
            yield f"{_option(name)} must be a finite number, got {getattr(args, name)}"
    for name in ABOVE_ZERO:
        if getattr(args, name) <= 0:
            yield f"{_option(name)} must be greater than 0, got {getattr(args, name)}"
    for name in ABOVE_ZERO_IF_SET:
        value = getattr(args, name)
        if value is not None and not (math.isfinite(value) and value > 0):
            yield f"{_option(name)} must be a finite number greater than 0, got {value}"
    for name in NOT_EMPTY:
        if getattr(args, name) == "":
            yield f"{_option(name)} must not be empty"
    if not re.fullmatch(r"[a-zA-Z_][a-zA-Z0-9_]*[:_]", args.metrics_prefix):
        yield (
            "--metrics-prefix must be letters, digits and _, and end in _ or :, "
            f"got {args.metrics_prefix[:40]!r}"
        )
    yield from _port(args)
    yield from _origins(args)
    yield from _traces(args)
    yield from _priority(args)
    yield from _memory(args)
    yield from _chunk(args)
    if args.mock_step_ms and args.load_format != MOCK:
        yield f"--mock-step-ms needs --load-format {MOCK}"
    if args.enable_overlap_schedule and args.disable_overlap_schedule:
        yield "--enable-overlap-schedule and --disable-overlap-schedule contradict each other"


def _choices(args: ServerArgs) -> Iterator[str]:
    # argparse has checked this; a script that makes its own ServerArgs has not.
    for group in flag_groups():
        for flag in group.flags:
            value = getattr(args, flag.name)
            if flag.info.choices is not None and value not in flag.info.choices:
                allowed = ", ".join(str(choice) for choice in flag.info.choices)
                yield f"{flag.option} must be one of {allowed}; got {value}"


def _ranges(args: ServerArgs, names: Sequence[str], *, lowest: int) -> Iterator[str]:
    for name in names:
        value = getattr(args, name)
        if value is not None and value < lowest:
            yield f"{_option(name)} must be at least {lowest}, got {value}"


def _port(args: ServerArgs) -> Iterator[str]:
    if not 0 <= args.port <= LARGEST_PORT:
        yield f"--port must be between 0 (any free one) and {LARGEST_PORT}, got {args.port}"


def _origins(args: ServerArgs) -> Iterator[str]:
    if args.cors_allow_origins is None:
        return
    try:
        parse_origins(args.cors_allow_origins)
    except ValueError as error:
        yield f"--cors-allow-origins: {error}"


def _traces(args: ServerArgs) -> Iterator[str]:
    try:
        traces_url(args)
    except ValueError as error:
        yield f"--otlp-traces-endpoint: {error}"


def _priority(args: ServerArgs) -> Iterator[str]:
    value = args.default_priority_value
    if value is not None and not -(2**31) <= value < 2**31:
        yield f"--default-priority-value must be a 32-bit number, got {value}"
    if args.enable_priority_scheduling:
        return
    # Alone they would do nothing, and whoever sets them expects something.
    for name in ("schedule_low_priority_values_first", "disable_priority_preemption"):
        if getattr(args, name):
            yield f"{_option(name)} needs --enable-priority-scheduling"


def _memory(args: ServerArgs) -> Iterator[str]:
    fraction = args.mem_fraction_static
    if fraction is not None and not 0 < fraction < 1:
        yield f"--mem-fraction-static must be between 0 and 1, both excluded, got {fraction}"
    if args.max_total_tokens is not None and 1 <= args.max_total_tokens < args.page_size:
        yield (
            f"--max-total-tokens ({args.max_total_tokens}) holds no page: "
            f"--page-size is {args.page_size} tokens"
        )


def _chunk(args: ServerArgs) -> Iterator[str]:
    chunk = args.chunked_prefill_size
    if chunk is None or chunk == -1:
        return
    if chunk < 1:
        yield f"--chunked-prefill-size must be at least 1, or -1 for no chunking, got {chunk}"
    elif chunk < args.page_size:
        yield f"--chunked-prefill-size ({chunk}) must be at least --page-size ({args.page_size})"


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")
