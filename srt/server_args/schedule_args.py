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
        help="Order of the waiting queue: by arrival; longest cached prefix first; along the tree of cached prefixes, "
        "into its busiest branches first; longest possible answer first; random. Ties go by arrival, and so does "
        "a long queue.",
        choices=("fcfs", "lpm", "dfs-weight", "lof", "random"),
    )
    schedule_conservativeness: float = flag(
        1.0,
        help="More than 1: admit fewer requests at once, if memory often runs out and requests have to be "
        "retracted. Less than 1: admit more.",
    )
    enable_priority_scheduling: bool = flag(
        False, help="Serve requests with a higher `priority` first. Otherwise the field is ignored."
    )
    schedule_low_priority_values_first: bool = flag(False, help="A lower `priority` is more urgent.")
    default_priority_value: int | None = flag(
        None, help="The `priority` of a request that names none. Default: less urgent than all that name one."
    )
    priority_scheduling_preemption_threshold: int = flag(
        10, help="A running request gives way to a waiting one whose priority is better by more than this."
    )
    disable_priority_preemption: bool = flag(False, help="Never let a running request give way.")
    abort_on_priority_when_disabled: bool = flag(
        False,
        help="Without --enable-priority-scheduling, answer a request that names a `priority` with a 503.",
    )
    request_waiting_timeout: float | None = flag(
        None,
        help="Seconds that a request may wait before it is started; then it gets a 503. Default: no limit.",
    )
    request_running_timeout: float | None = flag(
        None, help="Seconds that a request may take from its start; then it gets a 504. Default: no limit."
    )
    disable_overlap_schedule: bool = flag(
        False, help="Plan a step only when the results of the one before are applied. The default on a CPU."
    )
    enable_overlap_schedule: bool = flag(
        False, help="Apply the results of a step while the next is computed. The default on a GPU."
    )
    stream_interval: int = flag(1, help="Tokens a stream gets at once.")
