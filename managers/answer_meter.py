"""`AnswerMeter`: what a front counts of answers as they pass: tokens, and how long they took.

Every token of every stream passes `OpenRequests.deliver`, which counts by itself, in runs: rows of a batch whose
last token came at the same moment are one observation. Here is what happens once a run, once a batch, once an answer.
"""

from managers.messages.to_detokenizer import RequestFinished
from managers.request_state import Choice, RequestState
from srt.observability.front_counts import Count, FrontCounts

# A plain number: this is the one that is added to with every batch.
_STREAMED_TOKENS = int(Count.STREAMED_GENERATED_TOKENS)


class AnswerMeter:
    """Counts into `counts`. Times are the machine's monotonic ones."""

    def __init__(self, counts: FrontCounts) -> None:
        self._counts = counts
        self._cells = counts.cells
        self._num_whole_tokens = 0  # of answers that come in one piece, in the batch at hand

    def first_tokens(
        self, request: RequestState, choice: Choice, num_tokens: int, cached_tokens: int, now: float
    ) -> None:
        """An answer begins, or comes whole."""
        counts, is_streaming = self._counts, request.is_streaming
        self._count_prompt(request, choice, cached_tokens)
        choice.first_token_at = now
        if is_streaming:
            counts.time_to_first_token[True].observe(now - request.timing.received)
        else:
            self._num_whole_tokens += num_tokens

    def intervals(self, last_token_at: float, num_tokens: int, num_answers: int, now: float) -> None:
        """So many answers got so many tokens each, whose last ones before came at that moment.

        NaN: they had none before. It is equal to nothing, itself included, so it ends every run.
        """
        if num_tokens and last_token_at == last_token_at:
            self._counts.inter_token.observe((now - last_token_at) / num_tokens, num_tokens * num_answers)

    def end_batch(self, num_tokens: int) -> None:
        """A batch brought so many tokens in all."""
        if self._num_whole_tokens:
            self._counts.add(Count.GENERATED_TOKENS, self._num_whole_tokens)
            num_tokens -= self._num_whole_tokens
            self._num_whole_tokens = 0
        self._cells[_STREAMED_TOKENS] += num_tokens

    def finished(
        self, request: RequestState, choice: Choice, finished: RequestFinished, made_at: float, now: float
    ) -> None:
        """An answer has ended. What was cut off says nothing about how long answers take."""
        counts = self._counts
        timing, is_streaming = request.timing, request.is_streaming
        counts.add(Count.ANSWERS + is_streaming)
        if finished.reason.type == "abort":
            counts.add(Count.ABORTED_ANSWERS)
            return
        timing.scheduler, timing.detokenized = finished.timing, made_at
        if choice.first_token_at is None:  # it wanted no token
            self._count_prompt(request, choice, finished.cached_tokens)
        counts.end_to_end[is_streaming].observe(now - timing.received)
        num_intervals = finished.completion_tokens - 1
        if not is_streaming and finished.timing is not None and num_intervals >= 0:
            # Its first token came when it came, though nobody was told.
            told = finished.timing
            first_token_at = told.arrived + told.queue_s + told.prefill_s
            counts.time_to_first_token[False].observe(max(first_token_at - timing.received, 0.0))
            if num_intervals:
                counts.inter_token.observe(told.decode_s / num_intervals, num_intervals)
                counts.per_output_token[False].observe(told.decode_s / num_intervals)
        elif num_intervals > 0 and choice.first_token_at is not None:
            counts.per_output_token[is_streaming].observe((now - choice.first_token_at) / num_intervals)

    def _count_prompt(self, request: RequestState, choice: Choice, cached_tokens: int) -> None:
        self._counts.add(Count.PROMPT_TOKENS + request.is_streaming, choice.prompt_tokens)
        if cached_tokens:
            self._counts.add(Count.CACHED_TOKENS, cached_tokens)
