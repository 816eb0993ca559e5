"""`FrontRouter`: what the engine says, to the front it is for. Text and replies to the one that asked, loads to all."""

from collections.abc import Sequence
from typing import Protocol, assert_never

from managers.front_place import front_of
from managers.messages.control import FlushCacheReply, GetStateReply, SchedulerLoad
from managers.messages.to_tokenizer_manager import GrammarCompiled, TextBatch, TokenizerManagerInput


class FrontSender(Protocol):
    """The socket of one front."""

    def send(self, message: TokenizerManagerInput) -> None:
        """Queue one message; never blocks."""
        ...


class FrontRouter:
    """`senders` has one a front, in their order."""

    def __init__(self, senders: Sequence[FrontSender]) -> None:
        self._senders = senders

    def send(self, message: TokenizerManagerInput) -> None:
        """Pass it on."""
        senders = self._senders
        if len(senders) == 1:
            senders[0].send(message)
            return
        match message:
            case TextBatch():
                for sender, part in zip(senders, split_by_front(message, len(senders)), strict=True):
                    if part is not None:
                        sender.send(part)
            case SchedulerLoad():
                for sender in senders:
                    sender.send(message)
            case FlushCacheReply() | GetStateReply():
                senders[front_of(message.control_id, len(senders))].send(message)
            case GrammarCompiled():
                senders[front_of(message.job_id, len(senders))].send(message)
            case _:
                assert_never(message)


def split_by_front(batch: TextBatch, num_fronts: int) -> Sequence[TextBatch | None]:
    """What of a batch is each front's, in the order it had; None where that is nothing."""
    parts: list[TextBatch | None] = [None] * num_fronts

    def part_for(request_id: int) -> TextBatch:
        front = front_of(request_id, num_fronts)
        part = parts[front]
        if part is None:
            part = parts[front] = _empty_batch(batch.made_at)
        return part

    start = 0
    for request_id, text, num_tokens, cached_tokens in zip(
        batch.request_ids, batch.texts, batch.num_tokens, batch.cached_tokens, strict=True
    ):
        part = part_for(request_id)
        part.request_ids.append(request_id)
        part.texts.append(text)
        part.num_tokens.append(num_tokens)
        part.token_ids.extend(batch.token_ids[start : start + num_tokens])
        part.cached_tokens.append(cached_tokens)
        start += num_tokens
    for finished in batch.finished:
        part_for(finished.request_id).finished.append(finished)
    for logprobs in batch.logprobs:
        part_for(logprobs.request_id).logprobs.append(logprobs)
    return parts


def _empty_batch(made_at: float) -> TextBatch:
    return TextBatch(
        request_ids=[],
        texts=[],
        num_tokens=[],
        token_ids=[],
        cached_tokens=[],
        finished=[],
        logprobs=[],
        made_at=made_at,
    )
