"""What the detokenizer's socket carries: one step's new token ids, and what it only passes on."""

import msgspec

from managers.messages.base import Message, RequestId
from managers.messages.control import FlushCacheReply, GetStateReply, SchedulerLoad, Shutdown
from srt.engine_client import FinishReason, Logprobs
from srt.observability.request_timing import SchedulerTiming


class RequestOpened(msgspec.Struct, frozen=True, array_like=True, gc=False, kw_only=True):
    """What the detokenizer must know before a request's first token."""

    request_id: RequestId
    prompt_tail: list[int]  # the prompt's last few ids: some tokenizers decode a token by its neighbours
    cached_tokens: int
    skip_special_tokens: bool = True
    stop: tuple[str, ...] = ()


class RequestFinished(msgspec.Struct, frozen=True, array_like=True, gc=False, kw_only=True):
    """The one last word on a request. On arrival every process drops what it kept for it.

    `text_end`: how many characters of the decoded answer the client gets, when a stop string cut it;
    None when the answer is whole. `num_trimmed_tokens`: ids at the end that are not text (a stop token).
    """

    request_id: RequestId
    reason: FinishReason
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int
    text_end: int | None = None
    num_trimmed_tokens: int = 0
    num_retractions: int = 0
    timing: SchedulerTiming | None = None  # None: the scheduler never took it


class RequestLogprobs(msgspec.Struct, frozen=True, array_like=True, gc=False, kw_only=True):
    """What one request of a batch wanted to know: of its new tokens, and once, with the first, of its prompt's."""

    request_id: RequestId
    output: Logprobs
    prompt: Logprobs | None = None


class TokenBatch(Message, frozen=True):
    """One step's output as parallel arrays: request i gets the next `num_tokens[i]` of `token_ids`.

    A request appears in `opened` with or before its first tokens, and in `finished` exactly once, possibly
    without ever having been opened (aborted while it waited).
    """

    request_ids: list[RequestId]
    num_tokens: list[int]
    token_ids: list[int]
    opened: list[RequestOpened] = []
    finished: list[RequestFinished] = []
    logprobs: list[RequestLogprobs] = []  # of those few that asked; `output` is as long as their new tokens


DetokenizerInput = TokenBatch | SchedulerLoad | FlushCacheReply | GetStateReply | Shutdown
