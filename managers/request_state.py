"""What the front knows of one running request: its choices, what its caller has not taken yet, its times.

This is where every token of every request passes, so a choice only appends to what waits for its caller; a
caller that is busy finds everything merged into one chunk a choice.
Next on the request's path: srt/entrypoints/openai/chat/stream.py
"""

import asyncio
import logging
import math
from collections.abc import AsyncIterator, Callable, Sequence

from managers.messages.base import RequestId
from managers.messages.to_detokenizer import RequestFinished, RequestLogprobs
from srt.engine_client import ChunkSink, FinishReason, GenerateChunk, Logprobs, Outcome
from srt.errors import RequestError, RequestFailed
from srt.observability.request_timing import RequestTiming

logger = logging.getLogger(__name__)


class Choice:
    """One answer in the making; `index` is its place in its request."""

    __slots__ = (
        "_logprobs",
        "_prompt_logprobs",
        "_texts",
        "_token_ids",
        "cached_tokens",
        "completion_tokens",
        "finish_reason",
        "first_token_at",
        "has_news",
        "index",
        "last_token_at",
        "num_retractions",
        "num_trimmed_tokens",
        "prompt_tokens",
        "request_id",
    )

    def __init__(self, *, request_id: RequestId, index: int, prompt_tokens: int) -> None:
        self.request_id = request_id
        self.index = index
        self.prompt_tokens = prompt_tokens
        self.completion_tokens = 0
        self.cached_tokens = 0
        self.finish_reason: FinishReason | None = None
        self.num_trimmed_tokens = 0
        self.num_retractions = 0
        self.has_news = False
        # Moments, for whoever measures. NaN: equal to no moment, see answer_meter.py.
        self.first_token_at: float | None = None
        self.last_token_at = math.nan
        self._texts: list[str] = []
        self._token_ids: list[int] = []
        self._logprobs: Logprobs | None = None
        self._prompt_logprobs: Logprobs | None = None

    def append(self, text: str, token_ids: Sequence[int], cached_tokens: int) -> None:
        """Keep what is new until the caller takes it."""
        if text:
            self._texts.append(text)
        self._token_ids.extend(token_ids)
        self.completion_tokens += len(token_ids)
        self.cached_tokens = cached_tokens

    def add_logprobs(self, told: RequestLogprobs) -> None:
        """The same for what it wanted to know of these tokens, and once of the prompt's."""
        if self._logprobs is None:
            self._logprobs = told.output
        else:
            self._logprobs.extend(told.output)
        self._prompt_logprobs = told.prompt or self._prompt_logprobs

    def take(self) -> GenerateChunk:
        """Everything since the last take, as one chunk."""
        chunk = GenerateChunk(
            index=self.index,
            text="".join(self._texts),
            token_ids=self._token_ids,
            prompt_tokens=self.prompt_tokens,
            completion_tokens=self.completion_tokens,
            cached_tokens=self.cached_tokens,
            finish=self.finish_reason,
            num_trimmed_tokens=self.num_trimmed_tokens,
            num_retractions=self.num_retractions,
            logprobs=self._logprobs,
            prompt_logprobs=self._prompt_logprobs,
        )
        self._texts = []
        self._token_ids = []
        if self._logprobs is not None:
            self._logprobs = self._prompt_logprobs = None
        self.has_news = False
        return chunk


class RequestState:
    """A running request with all its choices: the `Generation` that its caller iterates.

    `send_abort` is called with the ids of the choices that have not ended when the caller gives up.
    """

    def __init__(
        self,
        request_id: str,
        prompt_token_ids: Sequence[Sequence[int]],
        *,
        timing: RequestTiming,
        send_abort: Callable[[list[RequestId]], None],
        rids: Sequence[str] = (),
        is_streaming: bool = False,
    ) -> None:
        self.request_id = request_id
        self.is_streaming = is_streaming
        self._rids = rids
        self.prompt_token_ids = prompt_token_ids
        self.timing = timing
        self.choices: list[Choice] = []
        self.num_coalesced_chunks = 0  # pieces that joined others which their caller had not taken yet
        self._send_abort = send_abort
        self._num_open = 0
        self._news: list[Choice] = []
        self._waiter: asyncio.Future[None] | None = None
        self._sink: ChunkSink | None = None
        self._error: RequestError | None = None
        self._caller_has_left = False
        self._has_delivered = False

    def add_choice(self, request_id: RequestId, *, index: int, prompt_tokens: int) -> Choice:
        """One more answer to wait for. All are added before the caller sees the request."""
        choice = Choice(request_id=request_id, index=index, prompt_tokens=prompt_tokens)
        self.choices.append(choice)
        self._num_open += 1
        return choice

    @property
    def is_finished(self) -> bool:
        """Whether every choice has had its last word."""
        return self._num_open == 0

    @property
    def names(self) -> Sequence[str]:
        """What it can be aborted by: one name, or one a prompt."""
        return self._rids or (self.request_id,)

    def open_ids_of(self, name: str) -> list[RequestId]:
        """The choices of this name that have not ended."""
        num_choices = len(self.choices) // len(self.names)
        start = self.names.index(name) * num_choices
        named = self.choices[start : start + num_choices]
        return [choice.request_id for choice in named if choice.finish_reason is None]

    @property
    def open_ids(self) -> list[RequestId]:
        """The choices that have not ended."""
        return [choice.request_id for choice in self.choices if choice.finish_reason is None]

    # What arrives from behind. The caller is woken separately, once for everything that came together.

    def append(self, choice: Choice, text: str, token_ids: Sequence[int], cached_tokens: int) -> None:
        """New text and ids of one choice."""
        if self._caller_has_left:
            return
        if self.timing.first_token is None:
            self.timing.note_first_token()
        choice.append(text, token_ids, cached_tokens)
        if choice.has_news:
            self.num_coalesced_chunks += 1
        else:
            self._note_news(choice)

    def add_logprobs(self, choice: Choice, told: RequestLogprobs) -> None:
        """What one choice wanted to know. Comes with the text and ids that it is about."""
        if self._caller_has_left:
            return
        choice.add_logprobs(told)
        if not choice.has_news:
            self._note_news(choice)

    def finish(self, choice: Choice, finished: RequestFinished) -> None:
        """The last word on one choice. An error ends the others too."""
        if choice.finish_reason is not None:
            return
        reason = finished.reason
        choice.finish_reason = reason
        choice.cached_tokens = finished.cached_tokens
        choice.num_trimmed_tokens = finished.num_trimmed_tokens
        choice.num_retractions = finished.num_retractions
        self._num_open -= 1
        if self._num_open == 0:
            self.timing.note_finished()
        if reason.type == "abort" and reason.status_code >= 400:
            self.fail(RequestFailed(reason.message, status=reason.status_code))
        elif not self._caller_has_left:
            self._note_news(choice)

    def end_before_dispatch(self, reason: FinishReason) -> None:
        """End every choice without a token: the scheduler never hears of them."""
        for choice in self.choices:
            choice.finish_reason = reason
            self._note_news(choice)
        self._num_open = 0
        self.timing.note_finished()

    def fail(self, error: RequestError) -> None:
        """End the whole request with `error`, which the caller gets after what is already here."""
        if self._error is None:
            self._error = error
        self._abort_open_choices()
        self.wake()

    def wake(self) -> bool:
        """Let a waiting caller have what is new: through its sink, or else by waking it. Whether its task runs next."""
        waiter = self._waiter
        if waiter is None or waiter.done():
            return False
        sink = self._sink
        if sink is None or not self._is_in_the_middle() or not sink.is_ready():
            waiter.set_result(None)
            return True
        try:
            sink.push(self._take_news())
        except Exception as error:  # noqa: BLE001 - its caller's, and not of everybody whose tokens came with these
            waiter.set_exception(error)
            return True
        return False

    # What the caller does.

    def __aiter__(self) -> AsyncIterator[list[GenerateChunk]]:
        return self

    async def __anext__(self) -> list[GenerateChunk]:
        """What is new, at most one chunk a choice; waits until there is something."""
        while True:
            # Nothing sent yet: the error can still be the response's status, so it goes first.
            if self._error is not None and not (self._news and self._has_delivered):
                raise self._take_error()
            if self._news:
                self._has_delivered = True
                return self._take_news()
            if self._num_open == 0 or self._caller_has_left:
                raise StopAsyncIteration
            await self._wait()

    def outcomes(self) -> list[Outcome]:
        """How far each choice has come."""
        return [
            Outcome(
                prompt_tokens=choice.prompt_tokens,
                completion_tokens=choice.completion_tokens,
                cached_tokens=choice.cached_tokens,
                finish=choice.finish_reason,
                num_retractions=choice.num_retractions,
            )
            for choice in self.choices
        ]

    def push_to(self, sink: ChunkSink | None) -> None:
        """See Generation."""
        self._sink = sink

    def abort(self) -> None:
        """Give up: nothing more is delivered, and the scheduler frees what the request holds."""
        if self._caller_has_left or self.is_finished:
            return
        self._caller_has_left = True
        self._news = []
        if self._error is None:
            num_tokens = sum(choice.completion_tokens for choice in self.choices)
            logger.debug("request %s: given up after %d tokens", self.request_id, num_tokens)
        self._abort_open_choices()
        self.wake()

    async def _wait(self) -> None:
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        except asyncio.CancelledError:
            self.abort()
            raise
        finally:
            self._waiter = None

    def _is_in_the_middle(self) -> bool:
        return self._has_delivered and self._num_open > 0 and self._error is None and bool(self._news)

    def _take_news(self) -> list[GenerateChunk]:
        news, self._news = self._news, []
        return [choice.take() for choice in news]

    def _take_error(self) -> RequestError:
        # Kept, it would know by its traceback who keeps it: a ring, which only the collector could end.
        error, self._error = self._error, None
        assert error is not None, self.request_id
        return error

    def _note_news(self, choice: Choice) -> None:
        if not choice.has_news:
            choice.has_news = True
            self._news.append(choice)

    def _abort_open_choices(self) -> None:
        open_ids = self.open_ids
        if open_ids:
            self._send_abort(open_ids)
