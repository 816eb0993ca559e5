"""Over how many processes one model is spread."""

from dataclasses import dataclass

from srt.server_args.flag import flag


@dataclass(frozen=True, kw_only=True)
class ParallelArgs:
    """Parallelism flags."""

    tp_size: int = flag(1, help="Tensor-parallel size: processes that share one model.", aliases=("--tp",))
    dist_timeout: float = flag(
        60.0, help="Seconds that a rank waits for the others in one collective before it gives up."
    )
    cpu_threads: int | None = flag(
        None, help="Compute threads of all ranks together on a CPU. Default: the cores there are."
    )
