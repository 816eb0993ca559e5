"""`QueueLimit`: who must go when too many wait. Decides only."""

from managers.scheduler.finish import Finish, refused
from managers.scheduler.request import Request
from managers.scheduler.waiting_queue import WaitingQueue

QUEUE_FULL = refused(
    "the server is at its limit of waiting requests; try again later", status_code=503, cause="queue_full"
)
EVICTED = refused(
    "the request was aborted by a higher priority request: the server is at its limit of waiting requests",
    status_code=503,
    cause="evicted",
)


class QueueLimit:
    """At most `max_queued_requests` wait beyond those for whom there are places; None: no limit."""

    def __init__(self, max_queued_requests: int | None) -> None:
        self._max_queued_requests = max_queued_requests

    def decide(self, urgency: int, waiting: WaitingQueue, num_places: int) -> Request | Finish | None:
        """For a newcomer: None when there is room; who must make room; or why it is refused.

        Who makes room is less urgent and has not run yet: nobody loses an answer of which a part was sent.
        """
        if self._max_queued_requests is None or len(waiting) < self._max_queued_requests + num_places:
            return None
        last = waiting.least_urgent()
        return last if last is not None and last.urgency < urgency else QUEUE_FULL
