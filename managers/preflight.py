"""What can be known to be wrong before anything that takes time, said all at once: flags, files, port, memory."""

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from mem_cache.sizing import kv_bytes_per_token
from srt.configs.checkpoint import find_model
from srt.configs.load import load_model_config
from srt.configs.model_config import ModelConfig
from srt.errors import StartupError
from srt.observability.request_log import check_target
from srt.parsers.detect import check_parser_names
from srt.runtime_plan.resolve import check_tp_size, resolve_context_length
from srt.server_args.checks import find_problems
from srt.server_args.model_args import MOCK
from srt.server_args.server_args import ServerArgs
from srt.util.host_memory import free_host_memory
from srt.util.network import claim_port

# The smallest number that a key or a value may be stored as.
LEAST_BYTES_PER_VALUE = 2
# What traces need beside what every server does: modules, and the packages that they come from.
TRACE_PACKAGES = {
    "opentelemetry.sdk": "opentelemetry-sdk",
    "opentelemetry.exporter.otlp.proto.http": "opentelemetry-exporter-otlp-proto-http",
}


def is_installed(module: str) -> bool:
    """Whether it could be imported."""
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # not even the package that it would be in
        return False


def claim_what_is_needed(
    args: ServerArgs,
    *,
    free_memory: Callable[[], int] = free_host_memory,
    is_there: Callable[[str], bool] = is_installed,
) -> socket.socket:
    """The server's port, bound; nobody can connect yet. Raises StartupError with everything that is wrong."""
    problems = _Problems()
    problems.found += find_problems(args)
    sock: socket.socket | None = None
    if 0 <= args.port < 2**16 and args.host:
        with problems.collected():
            sock = claim_port(args.host, args.port)
    if args.enable_trace or args.otlp_traces_endpoint is not None:
        missing = [package for module, package in TRACE_PACKAGES.items() if not is_there(module)]
        if missing:
            problems.found.append(f"traces need what is not installed: pip install {' '.join(missing)}")
    if args.log_requests:
        with problems.collected():
            check_target(args.log_requests_target)
    _look_at_files(args, problems, free_memory)
    if sock is not None and not problems.found:
        return sock
    if sock is not None:
        sock.close()
    raise StartupError(problems.told())


class _Problems:
    """What was found to be wrong."""

    def __init__(self) -> None:
        self.found: list[str] = []

    @contextmanager
    def collected(self) -> Iterator[None]:
        """A StartupError in the context is one more, and no error."""
        try:
            yield
        except StartupError as error:
            self.found.append(str(error))

    def told(self) -> str:
        """As one message."""
        if len(self.found) == 1:
            return self.found[0]
        return "the server cannot start:" + "".join(f"\n  - {problem}" for problem in self.found)


def _look_at_files(args: ServerArgs, problems: _Problems, free_memory: Callable[[], int]) -> None:
    with problems.collected():
        check_parser_names(args.tool_call_parser, args.reasoning_parser)
    for option, name in (("--tokenizer-path", args.tokenizer_path), ("--chat-template", args.chat_template)):
        if name and not Path(name).expanduser().exists():
            problems.found.append(f"{option}: there is no {name}")
    config: ModelConfig | None = None
    with problems.collected():
        config = load_model_config(find_model(args.model_path))
    if config is None:
        return
    with problems.collected():
        check_tp_size(args.tp_size, config.num_kv_heads, "cpu")
    with problems.collected():
        resolve_context_length(args.context_length, config.max_position)
    # A GPU has a memory of its own, which only the scheduler can ask.
    if args.device != "cuda" and args.load_format != MOCK:
        problems.found += memory_problems(args, config, free_memory())


def memory_problems(args: ServerArgs, config: ModelConfig, num_free: int) -> Iterator[str]:
    """Whether weights as large as their files, and the cache that was asked for, are more than there is.

    That is less than they will take, so nothing that could work is refused.
    """
    num_weights = 0 if args.load_format == "dummy" else args.dp_size * _num_file_bytes(config.path)
    per_token = kv_bytes_per_token(
        num_layers=config.num_layers,
        num_kv_heads=config.num_kv_heads,
        head_dim=config.head_dim,
        bytes_per_value=LEAST_BYTES_PER_VALUE,
    )
    num_kv = args.dp_size * per_token * (args.max_total_tokens or 0)
    if num_weights + num_kv > num_free:
        asked = f", --max-total-tokens at least {num_kv / 2**30:.1f} GiB" if num_kv else ""
        yield (
            f"the memory is too small: the weights take at least {num_weights / 2**30:.1f} GiB{asked}, "
            f"and {num_free / 2**30:.1f} GiB are free"
        )


def _num_file_bytes(path: Path) -> int:
    files = path.glob("*.safetensors") if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files)
