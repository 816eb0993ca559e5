"""What the scheduler's socket carries: requests, aborts, admin requests."""

from managers.messages.base import Message, RequestId
from managers.messages.control import FlushCache, GetState, Shutdown
from srt.engine_client import LogprobOptions
from srt.sampling.params import SamplingParams


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


class AbortRequest(Message, frozen=True):
    """The clients left or gave up. An unknown id is no error: the request may just have ended."""

    request_ids: list[RequestId]


SchedulerInput = TokenizedRequest | AbortRequest | FlushCache | GetState | Shutdown
