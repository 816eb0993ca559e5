"""The back actor: token ids in, text out, stop strings cut. Runs in a process of its own.

Keeps one `_Answer` for each request between its `RequestOpened` and its `RequestFinished`, and nothing else. A
request whose tokens cannot be decoded fails alone.
Next on the request's path: managers/open_requests.py
"""

import logging
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import assert_never

import msgspec

from managers.front_router import FrontRouter
from managers.ipc import IpcAddresses, Receiver, Sender
from managers.messages.base import RequestId
from managers.messages.control import FlushCacheReply, GetStateReply, SchedulerLoad, Shutdown
from managers.messages.figures import DetokenizerFigures
from managers.messages.to_detokenizer import DetokenizerInput, RequestFinished, RequestOpened, TokenBatch
from managers.messages.to_tokenizer_manager import TextBatch, TokenizerManagerInput
from managers.process import report_ready
from managers.pulses import HEARTBEAT_S
from srt.engine_client import FinishReason
from srt.tokenizer.load import load_tokenizer
from srt.tokenizer.stop_matcher import StopMatcher
from srt.tokenizer.tokenizer import Tokenizer

logger = logging.getLogger(__name__)


def run(addresses: IpcAddresses, tokenizer_folder: str, num_replicas: int = 1, num_fronts: int = 1) -> None:
    """Turn ids into text until told to stop for each replica of the model."""
    detokenizer = Detokenizer(load_tokenizer(Path(tokenizer_folder)))
    receiver = Receiver[DetokenizerInput](addresses.detokenizer_input, DetokenizerInput)
    fronts = [addresses] if num_fronts == 1 else [addresses.of_front(front) for front in range(num_fronts)]
    sender = FrontRouter([Sender[TokenizerManagerInput](front.tokenizer_manager_input) for front in fronts])
    backlog = Backlog()
    pulse = report_ready(addresses, {})
    while True:
        pulse.beat()
        messages = receiver.receive(HEARTBEAT_S)
        # What has piled up meanwhile is handled as one batch: whoever is behind catches up.
        merged = list(merge_batches(messages))
        backlog.note(messages, merged)
        for message in merged:
            match message:
                case TokenBatch():
                    output = detokenizer.process(message)
                    sender.send(msgspec.structs.replace(output, made_at=time.monotonic()))
                case SchedulerLoad():
                    figures = backlog.take_figures(detokenizer.num_open)
                    sender.send(msgspec.structs.replace(message, detokenizer=figures))
                case FlushCacheReply() | GetStateReply():
                    sender.send(message)
                case Shutdown():
                    num_replicas -= 1
                    if num_replicas == 0:
                        return
                case _:
                    assert_never(message)


class Backlog:
    """How far behind the detokenizer gets."""

    def __init__(self) -> None:
        self._most_waiting = 0
        self._num_merged = 0
        self._num_coalesced = 0

    def note(self, messages: Sequence[DetokenizerInput], merged: Sequence[DetokenizerInput]) -> None:
        """These were waiting, and became those."""
        if len(messages) > 1:
            num_batches = sum(isinstance(message, TokenBatch) for message in messages)
            self._num_merged += max(num_batches - 1, 0)
            self._most_waiting = max(self._most_waiting, num_batches - 1)
            self._num_coalesced += _num_chunks(messages) - _num_chunks(merged)

    def take_figures(self, num_open: int) -> DetokenizerFigures:
        """For a report; the most is counted anew from here on."""
        figures = DetokenizerFigures(
            num_open=num_open,
            backlog=self._most_waiting,
            num_merged_batches=self._num_merged,
            num_coalesced_chunks=self._num_coalesced,
            cpu_s=time.process_time(),
        )
        self._most_waiting = 0
        return figures


class _Answer:
    """One request's text so far: what is decoded, what is held back."""

    __slots__ = ("_decoder", "_held", "_num_sent", "_stop", "cached_tokens")

    def __init__(self, opened: RequestOpened, tokenizer: Tokenizer) -> None:
        self.cached_tokens = opened.cached_tokens
        self._decoder = tokenizer.incremental_decoder(
            prompt_tail=opened.prompt_tail, skip_special_tokens=opened.skip_special_tokens
        )
        self._stop = StopMatcher(opened.stop) if opened.stop else None
        self._held = ""  # may be the start of a stop string
        self._num_sent = 0  # characters

    def push(self, token_ids: Sequence[int]) -> str:
        """The text that may be shown now."""
        push = self._decoder.push
        text = push(token_ids[0]) if len(token_ids) == 1 else "".join(map(push, token_ids))
        if self._stop is None:
            return text
        self._stop.push(text)  # whether a match counts is the scheduler's to say
        text = self._held + text
        num_shown = len(text) - self._stop.num_held_back
        self._held = text[num_shown:]
        self._num_sent += num_shown
        return text[:num_shown]

    def finish(self, token_ids: Sequence[int], finished: RequestFinished) -> str:
        """The rest of the text: all of it, or as far as a stop string allows."""
        text = self._held + "".join(
            map(self._decoder.push, token_ids[: len(token_ids) - finished.num_trimmed_tokens])
        )
        if finished.text_end is not None:
            return text[: max(0, finished.text_end - self._num_sent)]
        return text + self._decoder.finish()


class Detokenizer:
    """Token batches to text batches. Pure: no socket, no clock."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._answers: dict[RequestId, _Answer] = {}

    @property
    def num_open(self) -> int:
        """Requests that are opened and not finished."""
        return len(self._answers)

    def process(self, batch: TokenBatch) -> TextBatch:
        """The text of one batch. Tokens of a request that is not open are dropped; its last word is passed on."""
        output = TextBatch(
            request_ids=[],
            texts=[],
            num_tokens=[],
            token_ids=[],
            cached_tokens=[],
            finished=[],
            logprobs=batch.logprobs,
        )
        for opened in batch.opened:
            self._answers[opened.request_id] = _Answer(opened, self._tokenizer)
        finished_by_id = {finished.request_id: finished for finished in batch.finished}
        start = 0
        for request_id, num_tokens in zip(batch.request_ids, batch.num_tokens, strict=True):
            token_ids = batch.token_ids[start : start + num_tokens]
            start += num_tokens
            self._add(output, request_id, token_ids, finished_by_id.pop(request_id, None))
        for finished in finished_by_id.values():
            self._add(output, finished.request_id, [], finished)
        return output

    def _add(
        self, output: TextBatch, request_id: RequestId, token_ids: list[int], finished: RequestFinished | None
    ) -> None:
        answer = self._answers.get(request_id)
        if answer is None:
            if finished is not None:
                output.finished.append(finished)
            return
        try:
            text = answer.push(token_ids) if finished is None else answer.finish(token_ids, finished)
        except Exception:
            logger.exception("request %d cannot be decoded and is given up", request_id)
            del self._answers[request_id]
            output.finished.append(_given_up(request_id, finished))
            return
        if token_ids or text:
            output.request_ids.append(request_id)
            output.texts.append(text)
            output.num_tokens.append(len(token_ids))
            output.token_ids.extend(token_ids)
            output.cached_tokens.append(answer.cached_tokens)
        if finished is not None:
            del self._answers[request_id]
            output.finished.append(finished)


def merge_batches(messages: Iterable[DetokenizerInput]) -> Iterator[DetokenizerInput]:
    """The same messages in the same order, with neighbouring token batches made into one."""
    batches: list[TokenBatch] = []
    for message in messages:
        if isinstance(message, TokenBatch):
            batches.append(message)
            continue
        if batches:
            yield _merged(batches)
            batches = []
        yield message
    if batches:
        yield _merged(batches)


def _merged(batches: Sequence[TokenBatch]) -> TokenBatch:
    if len(batches) == 1:
        return batches[0]
    ids_by_request: dict[RequestId, list[int]] = {}
    for batch in batches:
        start = 0
        for request_id, num_tokens in zip(batch.request_ids, batch.num_tokens, strict=True):
            ids_by_request.setdefault(request_id, []).extend(batch.token_ids[start : start + num_tokens])
            start += num_tokens
    return TokenBatch(
        request_ids=list(ids_by_request),
        num_tokens=[len(token_ids) for token_ids in ids_by_request.values()],
        token_ids=[token_id for token_ids in ids_by_request.values() for token_id in token_ids],
        opened=[opened for batch in batches for opened in batch.opened],
        finished=[finished for batch in batches for finished in batch.finished],
        logprobs=[told for batch in batches for told in batch.logprobs],
    )


def _num_chunks(messages: Sequence[DetokenizerInput]) -> int:
    return sum(len(message.request_ids) for message in messages if isinstance(message, TokenBatch))


def _given_up(request_id: RequestId, finished: RequestFinished | None) -> RequestFinished:
    return RequestFinished(
        request_id=request_id,
        reason=FinishReason(type="abort", message="the answer cannot be decoded", status_code=500),
        prompt_tokens=0 if finished is None else finished.prompt_tokens,
        completion_tokens=0 if finished is None else finished.completion_tokens,
        cached_tokens=0 if finished is None else finished.cached_tokens,
    )
