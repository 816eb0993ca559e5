"""Admin requests: flush the cache, report state. Each gets exactly one reply."""

from collections.abc import Mapping

from managers.messages import FlushCache, FlushCacheReply, GetState, GetStateReply
from managers.scheduler.request_memory import RequestMemory
from managers.scheduler.stats import SchedulerStats

Facts = Mapping[str, int | float | str | bool | None]


def flush_cache(
    message: FlushCache, num_running: int, num_waiting: int, memory: RequestMemory
) -> FlushCacheReply:
    """Forget every cached prefix, unless somebody could be using one."""
    if num_running or num_waiting:
        reason = f"{num_running} requests are running and {num_waiting} waiting"
        return FlushCacheReply(control_id=message.control_id, done=False, reason=reason)
    memory.flush()
    return FlushCacheReply(control_id=message.control_id, done=True)


def report_state(message: GetState, facts: Facts, stats: SchedulerStats) -> GetStateReply:
    """Facts decided at start, and figures of now."""
    figures: Facts = {
        "turn": stats.turn,
        "num_running_reqs": stats.num_running,
        "num_waiting_reqs": stats.num_waiting,
        "num_used_tokens": stats.memory.num_used,
        "num_cached_tokens": stats.memory.num_cached,
        "gen_throughput": stats.gen_throughput,
        "cache_hit_rate": stats.cache_hit_rate,
        "num_finished": stats.num_finished,
        "num_retractions": stats.num_retractions,
        "num_ledger_repairs": stats.num_ledger_repairs,
    }
    return GetStateReply(control_id=message.control_id, state={**facts, **figures})
