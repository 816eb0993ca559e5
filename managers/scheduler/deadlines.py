"""`Deadlines`: which requests have taken too long, by the clock of the tick and no other."""

import heapq
from collections.abc import Sequence
from typing import NamedTuple

from managers.scheduler.finish import Finish, refused
from managers.scheduler.request import Request, Stage

# Entries of requests that ended in time are dropped once they may be half of all.
LEAST_ENTRIES = 1024


class _Entry(NamedTuple):
    time: float
    number: int  # unique, so that entries of the same time are ordered too
    request: Request
    finish: Finish
    only_before_first_run: bool


class Deadlines:
    """Two limits for all requests, None for no limit, and one that a request may bring along.

    How long it waits for its first step; how long it takes from then to its end, retractions included; and how
    long it takes altogether.
    """

    def __init__(
        self, waiting_timeout_s: float | None = None, running_timeout_s: float | None = None
    ) -> None:
        self._waiting_timeout_s = waiting_timeout_s
        self._running_timeout_s = running_timeout_s
        self._entries: list[_Entry] = []  # a heap
        self._num_added = 0
        self._next_sweep = LEAST_ENTRIES

    def note_arrival(self, request: Request, clock: float, timeout_s: float | None) -> None:
        """A request was queued; it may take `timeout_s` altogether."""
        if self._waiting_timeout_s is not None:
            finish = refused(
                f"the request waited for {self._waiting_timeout_s:g} s and could not be started "
                "(--request-waiting-timeout); try again later",
                status_code=503,
                cause="waiting_timeout",
            )
            self._add(clock + self._waiting_timeout_s, request, finish, only_before_first_run=True)
        if timeout_s is not None:
            finish = refused(
                f"the request took longer than its timeout_s of {timeout_s:g} s",
                status_code=504,
                cause="request_timeout",
            )
            self._add(clock + timeout_s, request, finish)

    def note_admitted(self, requests: Sequence[Request], clock: float) -> None:
        """These run from now on. Only the first time counts."""
        if self._running_timeout_s is None:
            return
        for request in requests:
            if request.num_retractions == 0:
                finish = refused(
                    f"the request ran for {self._running_timeout_s:g} s without coming to its end "
                    "(--request-running-timeout)",
                    status_code=504,
                    cause="running_timeout",
                )
                self._add(clock + self._running_timeout_s, request, finish)

    def take_due(self, clock: float) -> list[tuple[Request, Finish]]:
        """Requests whose time is over, each once, and how they end."""
        due: dict[int, tuple[Request, Finish]] = {}
        while self._entries and self._entries[0].time <= clock:
            entry = heapq.heappop(self._entries)
            if not _is_void(entry):
                due.setdefault(entry.request.arrival, (entry.request, entry.finish))
        return list(due.values())

    def _add(
        self, time: float, request: Request, finish: Finish, *, only_before_first_run: bool = False
    ) -> None:
        self._num_added += 1
        heapq.heappush(self._entries, _Entry(time, self._num_added, request, finish, only_before_first_run))
        if len(self._entries) >= self._next_sweep:
            self._entries = [entry for entry in self._entries if not _is_void(entry)]
            heapq.heapify(self._entries)
            self._next_sweep = max(2 * len(self._entries), LEAST_ENTRIES)


def _is_void(entry: _Entry) -> bool:
    request = entry.request
    if request.stage is Stage.FINISHED:
        return True
    return entry.only_before_first_run and (request.stage is Stage.RUNNING or request.num_retractions > 0)
