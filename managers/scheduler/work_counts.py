"""`WorkCounts`: what a scheduler has done since its start, for /metrics. Nothing is decided by it."""

import time
from collections.abc import Sequence

from managers.messages.figures import ABORT_CAUSES, SchedulerFigures
from managers.scheduler.finish import Finish
from managers.scheduler.request import Request
from srt.observability.histogram import SPAN_BOUNDS, Histogram


class WorkCounts:
    """Counts once a step or once a request, never once a token."""

    def __init__(self) -> None:
        self.num_retractions = 0
        self._num_retracted_input_tokens = 0
        self._num_retracted_output_tokens = 0
        self._num_prefill_tokens = 0
        self._num_cached_tokens = 0
        self._num_decode_tokens = 0
        self._queue_time = Histogram(SPAN_BOUNDS)
        self._tick_time = Histogram(SPAN_BOUNDS)
        self._aborts = dict.fromkeys(ABORT_CAUSES, 0)

    def admitted(self, requests: Sequence[Request], clock: float) -> None:
        """These left the queue, for the first time or again; only the first counts as the end of their waiting."""
        for request in requests:
            if request.admitted_at is None:
                request.admitted_at = clock
                self._queue_time.observe(clock - request.arrived_at)
                self._num_cached_tokens += request.num_cached_tokens or 0

    def gave_way(self, requests: Sequence[Request]) -> None:
        """These lost their memory to others and go on later."""
        for request in requests:
            self.num_retractions += 1
            self._num_retracted_input_tokens += request.prompt_len
            self._num_retracted_output_tokens += request.num_output

    def computed(self, num_prefill_tokens: int, num_decode_tokens: int) -> None:
        """A step gave so many tokens their KV, beside those that were generated before it; so many were generated."""
        self._num_prefill_tokens += num_prefill_tokens
        self._num_decode_tokens += num_decode_tokens

    def ended_turn(self, seconds: float) -> None:
        """A turn that ran a batch took so long."""
        self._tick_time.observe(seconds)

    def ended(self, finish: Finish) -> None:
        """A request is over, or was refused."""
        if finish.cause:
            self._aborts[finish.cause] += 1

    def figures(self) -> SchedulerFigures:
        """All of it, now."""
        return SchedulerFigures(
            queue_time=self._queue_time.cells,
            tick_time=self._tick_time.cells,
            num_prefill_tokens=self._num_prefill_tokens,
            num_cached_tokens=self._num_cached_tokens,
            num_decode_tokens=self._num_decode_tokens,
            num_retractions=self.num_retractions,
            num_retracted_input_tokens=self._num_retracted_input_tokens,
            num_retracted_output_tokens=self._num_retracted_output_tokens,
            aborts=list(self._aborts.values()),
            cpu_s=time.process_time(),
        )
