"""What the main process's socket carries: one step's new text, replies, load figures, compiled grammars."""

from managers.messages.base import Message, RequestId
from managers.messages.control import FlushCacheReply, GetStateReply, SchedulerLoad
from managers.messages.to_detokenizer import RequestFinished, RequestLogprobs


class TextBatch(Message, frozen=True):
    """One step's text as parallel arrays; `token_ids` is flat, `num_tokens[i]` of them are request i's.

    `texts[i]` may be empty: the bytes so far are no whole character, or may be the start of a stop string.
    """

    request_ids: list[RequestId]
    texts: list[str]
    num_tokens: list[int]
    token_ids: list[int]
    cached_tokens: list[int]
    finished: list[RequestFinished] = []
    logprobs: list[RequestLogprobs] = []
    made_at: float = 0.0  # by the machine's monotonic clock


class GrammarCompiled(Message, frozen=True):
    """What became of a CompileGrammar: a payload, or an error for whoever wanted it."""

    job_id: int
    payload: bytes = b""
    error: str = ""


TokenizerManagerInput = GrammarCompiled | TextBatch | SchedulerLoad | FlushCacheReply | GetStateReply
