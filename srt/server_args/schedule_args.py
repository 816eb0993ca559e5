"""How many requests run and wait, and in which order and portions they are prefilled."""

from dataclasses import dataclass

from srt.server_args.flag import flag


@dataclass(frozen=True, kw_only=True)
class ScheduleArgs:
    """Scheduling flags."""

    max_running_requests: int | None = flag(
        None, help="Most requests in one batch. Default: by the size of the KV pool."
    )
    max_queued_requests: int | None = flag(
        None, help="Most requests that wait; one more gets a 503. Default: no limit."
    )
    chunked_prefill_size: int | None = flag(
        None,
        help="Most new tokens in one step; longer prompts are prefilled in chunks. -1: no chunking. "
        "Default: 512 on a CPU, 8192 on a GPU.",
    )
    schedule_policy: str = flag(
        "fcfs",
        help="Order of the waiting queue: by arrival, or longest cached prefix first.",
        choices=("fcfs", "lpm"),
    )
    stream_interval: int = flag(1, help="Tokens a stream gets at once.")
