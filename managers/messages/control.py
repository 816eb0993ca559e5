"""Admin requests and their replies, in pairs; `control_id` joins a reply to its request."""

from managers.messages.base import Message
from managers.messages.figures import DetokenizerFigures, SchedulerFigures


class FlushCache(Message, frozen=True):
    """Forget every cached prefix. Refused while any request runs or waits."""

    control_id: int


class FlushCacheReply(Message, frozen=True):
    """Whether the cache was flushed; if not, why."""

    control_id: int
    done: bool
    reason: str = ""
    dp_rank: int = 0


class GetState(Message, frozen=True):
    """Ask the scheduler for its facts and figures, for /server_info."""

    control_id: int


class GetStateReply(Message, frozen=True):
    """Facts decided at start, and current figures, by name."""

    control_id: int
    state: dict[str, int | float | str | bool | None]
    dp_rank: int = 0


class Shutdown(Message, frozen=True):
    """Leave the loop. Every rank hears of it in the same turn; rank 0 passes it on to the detokenizer.

    The detokenizer leaves when it has heard it of every replica; of one that has died, the controller tells it.
    """


class SchedulerLoad(Message, frozen=True):
    """How busy one scheduler is. Sent when a count changed (at most ten times a second), and each second.

    `num_used_tokens` counts KV slots that requests hold; a cached prefix that may be evicted is free.
    Arrival of any message, this one included, is also the scheduler's sign of life.
    """

    dp_rank: int
    num_running: int
    num_waiting: int
    num_waiting_uncached_tokens: int
    num_used_tokens: int
    num_cached_tokens: int  # of all prefixes that are cached, those in use among them
    max_total_num_tokens: int
    max_running_requests: int
    gen_throughput: float
    cache_hit_rate: float
    turn: int
    num_received: int = 0  # requests so far, taken or refused: which of those sent to it this report covers
    num_ledger_repairs: int = 0  # times that the books of KV memory had to be put in order: our bug
    num_evictable_tokens: int = 0  # cached, and in nobody's use
    figures: SchedulerFigures = SchedulerFigures()
    detokenizer: DetokenizerFigures | None = None  # the detokenizer's own, once it has passed


ControlRequest = FlushCache | GetState | Shutdown
ControlReply = FlushCacheReply | GetStateReply
