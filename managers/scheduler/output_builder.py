"""`OutputBuilder`: what the detokenizer is told of one step, gathered into one message.

A streaming request is told its first token at once and then every `stream_interval` tokens, its own or the server's;
another one everything at its end. A request is opened with its first tokens and finished exactly once.
Next on the request's path: managers/detokenizer_manager.py
"""

from managers.messages import RequestFinished, RequestId, RequestLogprobs, RequestOpened, TokenBatch
from managers.scheduler.finish import Finish
from managers.scheduler.request import Request


class OutputBuilder:
    """Fills up during a step; `take` empties it."""

    def __init__(self, stream_interval: int) -> None:
        self._stream_interval = max(stream_interval, 1)
        self._clear()

    def tokens_grew(self, request: Request) -> None:
        """`request` got a token and goes on; send it if it is due."""
        if not request.stream:
            return
        num_emitted = request.num_emitted
        interval = request.sampling.stream_interval or self._stream_interval
        if num_emitted == 0 or len(request.output_ids) - num_emitted >= interval:
            self._emit(request)

    def finished(self, request: Request, finish: Finish, now: float) -> None:
        """`request` has ended; send what was held back, and the last word. `now` is for people."""
        if request.num_output > request.num_emitted:
            self._emit(request)
        elif request.logprobs is not None and request.logprobs.has_prompt_to_tell:
            self._logprobs.append(request.logprobs.take(request.id))
        self._finished.append(
            RequestFinished(
                request_id=request.id,
                reason=finish.reason,
                prompt_tokens=request.prompt_len,
                completion_tokens=request.num_output,
                cached_tokens=request.num_cached_tokens or 0,
                text_end=finish.text_end,
                num_trimmed_tokens=finish.num_trimmed_tokens,
                num_retractions=request.num_retractions,
                timing=request.timing(now),
            )
        )

    def refused(self, request_id: RequestId, num_prompt_tokens: int, finish: Finish) -> None:
        """A request that was never accepted."""
        self._finished.append(
            RequestFinished(
                request_id=request_id,
                reason=finish.reason,
                prompt_tokens=num_prompt_tokens,
                completion_tokens=0,
                cached_tokens=0,
            )
        )

    def take(self) -> TokenBatch | None:
        """The message, or None when there is nothing to say."""
        if not self._request_ids and not self._finished:
            return None
        batch = TokenBatch(
            request_ids=self._request_ids,
            num_tokens=self._num_tokens,
            token_ids=self._token_ids,
            opened=self._opened,
            finished=self._finished,
            logprobs=self._logprobs,
        )
        self._clear()
        return batch

    def _emit(self, request: Request) -> None:
        if not request.is_opened:
            request.is_opened = True
            self._opened.append(
                RequestOpened(
                    request_id=request.id,
                    prompt_tail=request.prompt_tail,
                    cached_tokens=request.num_cached_tokens or 0,
                    skip_special_tokens=request.sampling.skip_special_tokens,
                    stop=request.sampling.stop,
                )
            )
        unsent = request.output_ids[request.num_emitted :]
        request.num_emitted += len(unsent)
        self._request_ids.append(request.id)
        self._num_tokens.append(len(unsent))
        self._token_ids += unsent
        if request.logprobs is not None:
            self._logprobs.append(request.logprobs.take(request.id))

    def _clear(self) -> None:
        self._request_ids: list[RequestId] = []
        self._num_tokens: list[int] = []
        self._token_ids: list[int] = []
        self._opened: list[RequestOpened] = []
        self._finished: list[RequestFinished] = []
        self._logprobs: list[RequestLogprobs] = []
