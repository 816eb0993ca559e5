"""`ReplicaBoard`: what the front knows of the model's replicas: how busy each is, when it last said so, who is lost.

A server without data parallelism has one replica, whose loss is the end of the server.
"""

from collections.abc import Callable, Mapping, Sequence

from managers.messages.base import RequestId
from managers.messages.control import SchedulerLoad
from managers.messages.to_controller import ControllerNote, ReplicaLost, RequestsEnded
from srt.engine_client import LoadSnapshot
from srt.errors import InvalidRequest, ServerNotReady


class ReplicaBoard:
    """Replicas 0 to `size` - 1. `tell_controller` passes on what a data-parallel controller needs to know."""

    def __init__(
        self, size: int = 1, *, tell_controller: Callable[[ControllerNote], None] | None = None
    ) -> None:
        self._size = size
        self._tell_controller = tell_controller
        self._loads: dict[int, tuple[SchedulerLoad, float]] = {}  # with the time of arrival
        self._lost: dict[int, str] = {}

    @property
    def live_ranks(self) -> Sequence[int]:
        """Who is not lost."""
        return [rank for rank in range(self._size) if rank not in self._lost]

    @property
    def lost(self) -> Mapping[int, str]:
        """Who is lost, and why."""
        return self._lost

    def check_rank(self, dp_rank: int | None) -> None:
        """Whether a request may ask for this replica. Raises InvalidRequest, or ServerNotReady if it is lost."""
        if dp_rank is None:
            return
        if not 0 <= dp_rank < self._size:
            raise InvalidRequest(
                f"dp_rank must be between 0 and {self._size - 1}, got {dp_rank}", param="dp_rank"
            )
        if dp_rank in self._lost:
            raise ServerNotReady(self._lost[dp_rank], param="dp_rank")

    def on_load(self, load: SchedulerLoad, now: float) -> None:
        """A replica says how busy it is."""
        self._loads[load.dp_rank] = load, now
        self._tell(load)

    def on_ended(self, request_ids: list[RequestId]) -> None:
        """These have had their last word."""
        self._tell(RequestsEnded(request_ids=request_ids))

    def lose(self, dp_rank: int, why: str) -> None:
        """A process of this replica has died."""
        self._lost[dp_rank] = why
        self._loads.pop(dp_rank, None)
        self._tell(ReplicaLost(dp_rank=dp_rank, reason=why))

    def loads(self, now: float) -> Sequence[LoadSnapshot]:
        """The latest load of each replica, by rank; none before its first report. One that is lost has nothing."""
        snapshots = [_snapshot(load, age_s=now - arrived) for load, arrived in self._loads.values()]
        snapshots += [_nothing(dp_rank) for dp_rank in self._lost]
        return sorted(snapshots, key=lambda snapshot: snapshot.dp_rank)

    def reports(self, now: float) -> Sequence[tuple[SchedulerLoad, float]]:
        """The last report of each replica that lives, by rank, and its age in seconds."""
        return [(load, now - arrived) for _, (load, arrived) in sorted(self._loads.items())]

    def what_is_wrong(self, now: float, silence_limit_s: float) -> str:
        """Which replicas are lost or silent, for people; empty when all is well."""
        problems = [self._lost[rank] for rank in sorted(self._lost)]
        for dp_rank, (_, arrived) in sorted(self._loads.items()):
            if self._size > 1 and now - arrived > silence_limit_s:
                problems.append(f"no sign of life from replica {dp_rank} for {now - arrived:.0f} s")
        return "; ".join(problems)

    def _tell(self, note: ControllerNote) -> None:
        if self._tell_controller is not None:
            self._tell_controller(note)


def _snapshot(load: SchedulerLoad, *, age_s: float) -> LoadSnapshot:
    return LoadSnapshot(
        dp_rank=load.dp_rank,
        num_running_reqs=load.num_running,
        num_waiting_reqs=load.num_waiting,
        num_waiting_uncached_tokens=load.num_waiting_uncached_tokens,
        num_used_tokens=load.num_used_tokens,
        num_cached_tokens=load.num_cached_tokens,
        max_total_num_tokens=load.max_total_num_tokens,
        max_running_requests=load.max_running_requests,
        gen_throughput=load.gen_throughput,
        cache_hit_rate=load.cache_hit_rate,
        age_s=age_s,
    )


def _nothing(dp_rank: int) -> LoadSnapshot:
    return LoadSnapshot(
        dp_rank=dp_rank,
        num_running_reqs=0,
        num_waiting_reqs=0,
        num_waiting_uncached_tokens=0,
        num_used_tokens=0,
        num_cached_tokens=0,
        max_total_num_tokens=0,
        max_running_requests=0,
        gen_throughput=0.0,
        cache_hit_rate=0.0,
        age_s=0.0,
        is_alive=False,
    )
