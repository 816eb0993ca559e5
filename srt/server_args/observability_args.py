"""What the server says about its work."""

from dataclasses import dataclass

from srt.server_args.flag import flag


@dataclass(frozen=True, kw_only=True)
class ObservabilityArgs:
    """Logging flags."""

    log_level: str = flag(
        "info", help="Least severe log line that is shown.", choices=("debug", "info", "warning", "error")
    )
    log_format: str = flag(
        "text", help="Log lines to read, or one JSON object a line.", choices=("text", "json")
    )
    enable_access_log: bool = flag(False, help="Log a line for every HTTP request.")
    slow_request_threshold: float | None = flag(
        None, help="Log HTTP requests that take so many seconds or more, with where their time went."
    )
    log_requests: bool = flag(
        False, help="Log what is asked and how it ends, as far as the level below says."
    )
    log_requests_level: int = flag(
        0,
        help="What is logged of requests. 0: names, figures. 1: sampling settings, too. 2: the first 2,048 characters "
        "of prompts and answers, too. 3: all of them. Credentials and files in texts are left out.",
        choices=(0, 1, 2, 3),
    )
    log_requests_target: str = flag(
        "log",
        help="Where these lines go: log, stdout, or a folder, which gets JSON lines, a file a process, begun anew "
        "every hour and kept for a week.",
    )
    enable_metrics: bool = flag(False, help="Serve /metrics for Prometheus.")
    metrics_prefix: str = flag(
        "sglang:",
        help="How metrics begin that mean the same as SGLang's. lockstep_: as Prometheus' own rules want it.",
    )
    enable_trace: bool = flag(
        False, help="Send OpenTelemetry traces to http://localhost:4318, or to the endpoint below."
    )
    otlp_traces_endpoint: str | None = flag(
        None,
        help="Send OpenTelemetry traces there, as OTLP over HTTP: http://collector:4318. One span for each request and "
        "for each part of its time; no texts. Needs the packages of the extra `trace`.",
    )
    otlp_service_name: str | None = flag(
        None, help="Name of the service in traces. Default: OTEL_SERVICE_NAME, or lockstep."
    )
    decode_log_interval: int = flag(40, help="Decode steps between two decode log lines.")
    watchdog_timeout: float = flag(
        300.0,
        help="Seconds without a sign of life from a process after which /health fails, its stacks are logged, and the "
        "server ends, or the replica. No step may take longer.",
    )
