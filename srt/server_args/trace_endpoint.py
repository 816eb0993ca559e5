"""Where traces are sent: the flags' words as a URL of OTLP over HTTP."""

from urllib.parse import urlsplit

from srt.server_args.server_args import ServerArgs

DEFAULT = "http://localhost:4318"
PATH = "/v1/traces"


def traces_url(args: ServerArgs) -> str | None:
    """None: no traces are wanted. Raises ValueError, which says what is wrong with the endpoint."""
    endpoint = args.otlp_traces_endpoint
    if endpoint is None:
        return DEFAULT + PATH if args.enable_trace else None
    # SGLang's form has no scheme.
    url = endpoint if "://" in endpoint else f"http://{endpoint}"
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https"):
        raise ValueError(f"traces are sent as OTLP over HTTP, not over {parts.scheme}, got {endpoint!r}")
    try:
        is_whole = bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is none
        is_whole = False
    if not is_whole:
        raise ValueError(f"must be a URL like {DEFAULT}, got {endpoint!r}")
    return url if parts.path not in ("", "/") else f"{parts.scheme}://{parts.netloc}{PATH}"
