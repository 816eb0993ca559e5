"""What the scheduler's socket carries: grammars, requests, aborts, admin requests."""

import msgspec

from managers.messages.base import Message, RequestId
from managers.messages.control import FlushCache, GetState, Shutdown
from srt.engine_client import LogprobOptions
from srt.sampling.params import SamplingParams


class DefineGrammar(Message, frozen=True):
    """From here on requests may name this grammar. No number is ever used twice, whichever front defines it."""

    grammar_id: int
    payload: bytes  # compiled, by the grammar back end of --grammar-backend


class ForgetGrammar(Message, frozen=True):
    """No further request will name it. Those that already have are not touched."""

    grammar_id: int


class RequestGrammar(msgspec.Struct, frozen=True, array_like=True, gc=False, kw_only=True):
    """A grammar that was defined before, and the text behind which it begins; None: at once."""

    grammar_id: int
    begins_after: str | None = None


class TokenizedRequest(Message, frozen=True):
    """One prompt, one answer. Validated by the front: ids in range, length within the context.

    `sampling.seed` is set. `sampling.n` is 1: the front makes n requests of one with n choices, and names
    the first of them as `group_leader` of the others, which wait until its prompt is in the prefix cache.
    """

    request_id: RequestId
    input_ids: bytes  # pack_token_ids
    sampling: SamplingParams
    stream: bool
    group_leader: RequestId | None = None
    priority: int | None = None  # as the client gave it
    timeout_s: float | None = None  # from the arrival at the scheduler to the end
    namespace: tuple[str, ...] = ()  # prefixes are shared within a namespace only
    dp_rank: int | None = None  # the replica that the client asked for
    logprobs: LogprobOptions | None = None
    grammar: RequestGrammar | None = None
    is_probe: bool = False  # a health check of one token: before all others


class AbortRequest(Message, frozen=True):
    """The clients left or gave up. An unknown id is no error: the request may just have ended."""

    request_ids: list[RequestId]


SchedulerInput = (
    DefineGrammar | ForgetGrammar | TokenizedRequest | AbortRequest | FlushCache | GetState | Shutdown
)
