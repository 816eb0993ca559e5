"""What processes have counted since their start: snapshots that ride on the load reports."""

import msgspec

# Why the scheduler ends an answer before its time, in the order in which they are counted.
ABORT_CAUSES = (
    "client_left",
    "queue_full",
    "evicted",  # from a full queue, for somebody more urgent
    "waiting_timeout",
    "running_timeout",
    "request_timeout",  # its own timeout_s
    "invalid",  # refused for what it asks
    "broken",  # our fault
)


class SchedulerFigures(msgspec.Struct, frozen=True, array_like=True, gc=False, kw_only=True):
    """Of one scheduler. Histograms are cells with the bounds of srt/observability/histogram.py."""

    queue_time: list[int] = []  # SPAN_BOUNDS
    tick_time: list[int] = []  # SPAN_BOUNDS
    num_prefill_tokens: int = 0
    num_cached_tokens: int = 0
    num_decode_tokens: int = 0
    num_retractions: int = 0
    num_retracted_input_tokens: int = 0
    num_retracted_output_tokens: int = 0
    aborts: list[int] = []  # ABORT_CAUSES
    cpu_s: float = 0.0


class DetokenizerFigures(msgspec.Struct, frozen=True, array_like=True, gc=False, kw_only=True):
    """Of the detokenizer, which adds them to every report that passes through it."""

    num_open: int = 0
    backlog: int = 0  # most batches found waiting at once, since the last report
    num_merged_batches: int = 0
    num_coalesced_chunks: int = 0  # pieces of answers that became one with others thereby
    cpu_s: float = 0.0
