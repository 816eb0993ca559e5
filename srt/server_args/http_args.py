"""Where the server listens, who may ask, and how it stops."""

from dataclasses import dataclass

from srt.server_args.flag import flag


@dataclass(frozen=True, kw_only=True)
class HttpArgs:
    """HTTP flags."""

    host: str = flag("127.0.0.1", help="Address to listen on.")
    port: int = flag(30000, help="Port to listen on.")
    api_key: str | None = flag(
        None, help="Bearer token that every request but health checks must carry.", secret=True
    )
    served_model_name: str | None = flag(
        None,
        help="Name in /v1/models and in answers. Default: the model path as given, or SmolLM2-135M-Instruct.",
    )
    strict_model_name: bool = flag(
        False, help="Answer a request that names another `model` with a 404; otherwise any name is accepted."
    )
    cors_allow_origins: str | None = flag(
        None,
        help="Origins of web pages that a browser lets ask, separated by commas: https://chat.example.org,"
        "http://localhost:3000; or * for all. Default: none.",
    )
    http_read_timeout: float = flag(
        30.0, help="Seconds that a request's head may take, and that its body may pause; then 408."
    )
    tokenizer_worker_num: int = flag(
        1,
        help="Processes that serve HTTP and tokenise, on one port. More than 1: the main process only hands each "
        "connection to the one that has the fewest.",
    )
    incremental_streaming_output: bool = flag(
        False, help="Events of /generate carry what is new, instead of all so far."
    )
    max_body_bytes: int = flag(16 * 1024 * 1024, help="Longest request body that is read; beyond it 413.")
    drain_timeout: float = flag(30.0, help="Seconds that running requests get to finish after SIGTERM.")
