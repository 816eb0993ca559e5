"""Over how many processes one model is spread, and how many times it is served."""

from dataclasses import dataclass

from srt.server_args.flag import flag


@dataclass(frozen=True, kw_only=True)
class ParallelArgs:
    """Parallelism flags."""

    tp_size: int = flag(1, help="Tensor-parallel size: processes that share one model.", aliases=("--tp",))
    dp_size: int = flag(
        1,
        help="Data-parallel size: replicas of the model, each with --tp-size processes and its share of cores and "
        "memory. Limits of requests and tokens hold for each.",
        aliases=("--dp",),
    )
    load_balance_method: str = flag(
        "auto",
        help="Which replica gets a request: in turns, the least busy, or the one that has its prefix cached and is not "
        "much busier. auto: prefix_aware, or least_requests without a prefix cache.",
        choices=(
            "auto",
            "round_robin",
            "least_requests",
            "total_requests",
            "least_tokens",
            "total_tokens",
            "prefix_aware",
        ),
    )
    dist_timeout: float = flag(
        60.0, help="Seconds that a rank waits for the others in one collective before it gives up."
    )
    disable_custom_all_reduce: bool = flag(
        False,
        help="Let ranks add up through gloo, over loopback, in place of shared memory, which needs the native kernels.",
    )
    cpu_threads: int | None = flag(
        None,
        help="Compute threads of all ranks together on a CPU. Default: the cores that the server may use, without "
        "second threads of a core; from 8 cores on less one or two for HTTP and text (--tokenizer-worker-num: more).",
    )
