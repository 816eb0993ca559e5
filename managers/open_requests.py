"""`OpenRequests`: every request that the front has not answered in full, by number and by name.

Owns the table from a choice's number to its state: what arrives from behind goes to its request through `deliver`,
where every token of every request passes. An entry leaves with its `RequestFinished`, and only then.
Next on the request's path: managers/request_state.py
"""

import asyncio
import itertools
import logging
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from managers.answer_meter import AnswerMeter
from managers.messages.base import RequestId
from managers.messages.to_detokenizer import RequestFinished
from managers.messages.to_tokenizer_manager import TextBatch
from managers.request_state import Choice, RequestState
from srt.errors import RequestError

logger = logging.getLogger(__name__)

# What is woken in one turn of the event loop. A piece that is pushed takes 15 µs, a task that runs some hundred: so
# whatever else there is to do waits for about a millisecond, however many streams a step has tokens for.
PIECES_A_TURN, PIECES_FOR_A_TASK = 64, 16


@dataclass(eq=False, slots=True)
class Arrival:
    """A request that is being tokenised, in `task`. It can be aborted too: then the task is cancelled."""

    rid: str
    task: asyncio.Task[object]
    rids: Sequence[str] = ()  # of its prompts, if each has one
    aborted_rids: list[str] = field(default_factory=list)  # of these, to be aborted once they are dispatched
    _is_aborted: bool = False

    def abort(self) -> None:
        """End it; may be called again."""
        if not self._is_aborted:
            self._is_aborted = True
            self.task.cancel()

    def take_back_cancellation(self) -> bool:
        """Whether a cancellation was only this abort, and is none any more. Another one (the client left) counts."""
        return self._is_aborted and self.task.uncancel() == 0


class OpenRequests:
    """What is open. `send_abort` is given the numbers of choices that the scheduler is to end."""

    def __init__(self, *, send_abort: Callable[[list[RequestId]], None], meter: AnswerMeter) -> None:
        self._send_abort = send_abort
        self._meter = meter
        self._choices: dict[RequestId, tuple[RequestState, Choice]] = {}
        self._requests_by_rid: dict[str, list[RequestState]] = {}
        self._arrivals: set[Arrival] = set()
        self._idle = asyncio.Event()
        self._to_wake: dict[int, RequestState] = {}
        # Pieces of streams that did not leave by themselves, because their reader or this process was late.
        self.num_coalesced_chunks = 0

    @property
    def num_choices(self) -> int:
        """Answers that have not had their last word."""
        return len(self._choices)

    @contextmanager
    def arriving(self, rid: str, rids: Sequence[str] = ()) -> Iterator[Arrival]:
        """A request that may be aborted by this name, and is waited for, while the context lasts."""
        task = asyncio.current_task()
        assert task is not None, "requests arrive in tasks"
        arrival = Arrival(rid, task, rids)
        self._arrivals.add(arrival)
        try:
            yield arrival
        finally:
            self._arrivals.discard(arrival)
            self._note_if_idle()

    def add(self, request: RequestState) -> None:
        """From here on it gets what arrives for its choices."""
        self._choices.update((choice.request_id, (request, choice)) for choice in request.choices)
        for name in request.names:
            self._requests_by_rid.setdefault(name, []).append(request)

    def abort(self, rid: str) -> None:
        """End every request with this exact rid, those that are still being tokenised among them."""
        for arrival in self._arrivals:
            if rid in arrival.rids:
                arrival.aborted_rids.append(rid)
            elif arrival.rid == rid:
                arrival.abort()
        self._abort([i for request in self._requests_by_rid.get(rid, ()) for i in request.open_ids_of(rid)])

    def abort_all(self) -> None:
        """End every request, those that are still being tokenised among them."""
        for arrival in self._arrivals:
            arrival.abort()
        self._abort(list(self._choices))

    def fail_all(self, make_error: Callable[[], RequestError]) -> None:
        """Nothing more will arrive: every request ends with an error of its own."""
        for request in list(itertools.chain.from_iterable(self._requests_by_rid.values())):
            request.fail(make_error())
        self._choices.clear()
        self._requests_by_rid.clear()
        self._note_if_idle()

    def deliver(self, batch: TextBatch, now: float) -> None:
        """Each row to its request. Its caller hears of it with the next `wake_callers`."""
        choices, meter, to_wake = self._choices, self._meter, self._to_wake
        start = 0
        run_last_token_at, run_num_tokens, run_length = math.nan, 0, 0
        for request_id, text, num_tokens, cached_tokens in zip(
            batch.request_ids, batch.texts, batch.num_tokens, batch.cached_tokens, strict=True
        ):
            end = start + num_tokens
            found = choices.get(request_id)
            if found is not None:
                request, choice = found
                request.append(choice, text, batch.token_ids[start:end], cached_tokens)
                to_wake[id(request)] = request
                if choice.last_token_at == run_last_token_at and num_tokens == run_num_tokens:
                    run_length += 1
                else:
                    if run_length:
                        meter.intervals(run_last_token_at, run_num_tokens, run_length, now)
                    run_last_token_at, run_num_tokens, run_length = choice.last_token_at, num_tokens, 1
                    if choice.first_token_at is None:
                        meter.first_tokens(request, choice, num_tokens, cached_tokens, now)
                choice.last_token_at = now
            start = end
        if run_length:
            meter.intervals(run_last_token_at, run_num_tokens, run_length, now)
            meter.end_batch(start)
        for told in batch.logprobs:
            found = choices.get(told.request_id)
            if found is not None:
                request, choice = found
                request.add_logprobs(choice, told)
                to_wake[id(request)] = request
        for finished in batch.finished:
            found = choices.pop(finished.request_id, None)
            if found is not None:
                request, choice = found
                meter.finished(request, choice, finished, batch.made_at, now)
                self._finish(request, choice, finished)
                to_wake[id(request)] = request
        if batch.finished:
            self._note_if_idle()

    async def wake_callers(self) -> None:
        """Of all that was delivered: once a request, however much has come. So whoever is behind catches up.

        Some at a time. All, if it is cancelled meanwhile.
        """
        to_wake, self._to_wake = iter(self._to_wake.values()), {}
        num_left = PIECES_A_TURN
        try:
            for request in to_wake:
                num_left -= PIECES_FOR_A_TASK if request.wake() else 1
                if num_left <= 0:
                    await asyncio.sleep(0)
                    num_left = PIECES_A_TURN
        finally:
            for request in to_wake:
                request.wake()

    async def wait_until_none(self, timeout_s: float, hurry: asyncio.Event | None = None) -> bool:
        """Whether no request is open; waits up to `timeout_s` for that, or until `hurry` is set."""
        self._idle.clear()
        self._note_if_idle()
        waits = [asyncio.create_task(event.wait()) for event in (self._idle, hurry) if event is not None]
        await asyncio.wait(waits, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()
        return self._idle.is_set()

    def _finish(self, request: RequestState, choice: Choice, finished: RequestFinished) -> None:
        if finished.reason.status_code >= 500:
            # It may have failed on its way here, while the scheduler still runs it.
            self._abort([choice.request_id])
        request.finish(choice, finished)
        if request.is_finished:
            self.num_coalesced_chunks += request.num_coalesced_chunks
            for name in request.names:
                same_rid = self._requests_by_rid[name]
                same_rid.remove(request)
                if not same_rid:
                    del self._requests_by_rid[name]
            logger.debug("request %s ended after %.3f s", request.request_id, request.timing.duration_s)

    def _abort(self, request_ids: list[RequestId]) -> None:
        if request_ids:
            self._send_abort(request_ids)

    def _note_if_idle(self) -> None:
        if not self._choices and not self._arrivals:
            self._idle.set()
