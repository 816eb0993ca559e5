"""The seam between HTTP and the actors: what a handler may ask of the engine, and what it gets back.

Handlers see this file and nothing behind it; managers/tokenizer_manager.py implements `EngineClient`, and
tests/fakes/engine_client.py does for handler tests.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal, Protocol

import msgspec

from srt.constrained.grammar_spec import GrammarSpec
from srt.errors import InvalidRequest
from srt.observability.exposition import Family
from srt.observability.front_counts import FrontCounts
from srt.sampling.params import SamplingParams


class FinishReason(msgspec.Struct, frozen=True, array_like=True, gc=False, kw_only=True):
    """Why a request ended.

    `matched` is the stop string or stop token id of a "stop", None when nothing in particular matched.
    An "abort" carries a message; with a `status_code` of 400 or more it is an error, which the client
    sees as an HTTP status if nothing was sent yet, and as an error event otherwise.
    """

    type: Literal["stop", "length", "abort"]
    matched: int | str | None = None
    message: str = ""
    status_code: int = 200


class TextPrompt(msgspec.Struct, frozen=True):
    """Plain text; tokenised with the tokenizer's own special tokens (a BOS, if it adds one)."""

    text: str


class TokenPrompt(msgspec.Struct, frozen=True):
    """Token ids, taken as they are."""

    token_ids: list[int]


class ChatPrompt(msgspec.Struct, frozen=True, kw_only=True):
    """Messages for the chat template. The rendered text is tokenised without further special tokens.

    `messages` are plain dicts as the template sees them. With `continue_final_message` the prompt ends
    inside the last message, which the model goes on writing.
    """

    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]] | None = None
    add_generation_prompt: bool = True
    continue_final_message: bool = False
    template_kwargs: Mapping[str, Any] = {}


Prompt = TextPrompt | TokenPrompt | ChatPrompt


# Limits of what one request may ask about: of each position, and of its prompt in all.
MAX_TOP_LOGPROBS, MAX_ASKED_LOGPROBS, MAX_PROMPT_LOGPROBS = 128, 1024, 1_000_000


class LogprobOptions(msgspec.Struct, frozen=True, array_like=True, gc=False, kw_only=True):
    """Which log-probabilities a request wants, beside that of every token of its answer.

    Natural logarithms of the model's own distribution: before penalties, bias, grammar, temperature and
    truncation, so that prompt and answer are told alike and nothing depends on how a token was chosen.
    """

    prompt_start: int | None = None  # from this position of the prompt on; None: of the answer only
    num_top: int = 0  # so many of the likeliest tokens of each position
    token_ids: tuple[int, ...] = ()  # and these tokens, at each position

    def check(self, *, prompt_len: int, vocab_size: int) -> None:
        """Raise InvalidRequest, which names the field, if this cannot be told of a prompt of `prompt_len` tokens."""
        start = prompt_len if self.prompt_start is None else self.prompt_start
        if not 0 <= start <= prompt_len:
            raise InvalidRequest(
                f"prompt_start must be between 0 and the prompt's {prompt_len} tokens, got {start}",
                param="prompt_start",
            )
        if not 0 <= self.num_top <= MAX_TOP_LOGPROBS:
            raise InvalidRequest(
                f"num_top must be between 0 and {MAX_TOP_LOGPROBS}, got {self.num_top}", param="num_top"
            )
        if len(self.token_ids) > MAX_ASKED_LOGPROBS:
            raise InvalidRequest(f"at most {MAX_ASKED_LOGPROBS} token_ids", param="token_ids")
        if self.token_ids and not 0 <= min(self.token_ids) <= max(self.token_ids) < vocab_size:
            raise InvalidRequest(f"token_ids must be between 0 and {vocab_size - 1}", param="token_ids")
        num_values = (prompt_len - start) * (1 + self.num_top + len(self.token_ids))
        if num_values > MAX_PROMPT_LOGPROBS:
            raise InvalidRequest(
                f"a request may ask for {MAX_PROMPT_LOGPROBS} log-probabilities of its prompt, "
                f"this one asks for {num_values}; a later prompt_start makes it fewer",
                param="prompt_start",
            )


class Logprobs(msgspec.Struct, array_like=True, gc=False, kw_only=True):
    """Log-probabilities of consecutive tokens, as columns: entry i of each is about the i-th token.

    A prompt's first token has nothing before it: its logprob is None, its `top` and `asked` are empty.
    """

    token_ids: list[int] = []
    logprobs: list[float | None] = []
    top: list[list[tuple[int, float]]] = []  # likeliest first; empty lists if none were asked for
    asked: list[list[float]] = []  # of LogprobOptions.token_ids, in their order

    def extend(self, other: "Logprobs") -> None:
        """Append what is known of the tokens that follow."""
        self.token_ids += other.token_ids
        self.logprobs += other.logprobs
        self.top += other.top
        self.asked += other.asked


class GenerateRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One or more prompts that start or fail together.

    `sampling` has one entry a prompt, all with the same `n`. Choice `i` of prompt `p` has index p·n + i.
    `logprobs` and `grammars` have one entry a prompt too, or are empty: nobody wants any.
    After `timeout_s` it ends with a 504. `complete` is asked for the request as it is to be, when that needs the engine
    itself: from before that on it can be aborted by its rid.
    """

    prompts: Sequence[Prompt]
    sampling: Sequence[SamplingParams]
    logprobs: Sequence[LogprobOptions | None] = ()
    grammars: Sequence[GrammarSpec | None] = ()
    stream: bool
    rid: str | None = None
    rids: Sequence[str] = ()  # one a prompt, in place of `rid`; each can be aborted alone
    namespace: tuple[str, ...] = ()
    priority: int | None = None
    timeout_s: float | None = None
    dp_rank: int | None = None  # the replica to run on, if the client has a wish
    is_probe: bool = (
        False  # a health check of one token: it waits behind nobody, and no limit of places refuses it
    )
    complete: Callable[["GenerateRequest"], Awaitable["GenerateRequest"]] | None = None


class GenerateChunk(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """What is new for one choice since its last chunk. Chunks of a slow reader arrive merged.

    `completion_tokens` counts all so far. `finish` is set on a choice's last chunk, and only there.
    `logprobs`, if asked for, are of `token_ids`, one for one; `prompt_logprobs` come once, with the first chunk.
    """

    index: int
    text: str
    token_ids: list[int]
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int
    finish: FinishReason | None = None
    num_trimmed_tokens: int = 0  # on the last chunk: so many ids at its end are no text (a stop token)
    num_retractions: int = 0  # on the last chunk: how often it had to give way and went on later
    logprobs: Logprobs | None = None
    prompt_logprobs: Logprobs | None = None


class Outcome(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """How far one choice has come, in figures. `finish` None: it has not ended, or nobody waited for its end."""

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int
    finish: FinishReason | None
    num_retractions: int


class ChunkSink(Protocol):
    """Takes chunks in a plain call, where a task would have to be woken for them."""

    def is_ready(self) -> bool:
        """Whether `push` may be called now."""
        ...

    def push(self, chunks: list[GenerateChunk]) -> None:
        """Take them. What it raises, the task that iterates gets."""
        ...


class Generation(Protocol):
    """A running request. Iterating gives lists of chunks (never empty) until every choice has finished.

    Raises RequestError when a choice ends with an error status. Whoever stops before the end calls
    `abort()`, a plain call that may be made at any time, any number of times.
    """

    request_id: str  # the client's rid, or one made for it
    prompt_token_ids: Sequence[Sequence[int]]  # of each prompt, as tokenised

    def __aiter__(self) -> AsyncIterator[list[GenerateChunk]]:
        """Itself."""
        ...

    async def __anext__(self) -> list[GenerateChunk]:
        """Wait until there is something new; StopAsyncIteration after the last choice's end."""
        ...

    def push_to(self, sink: ChunkSink | None) -> None:
        """Offer a shorter way: while somebody waits in `__anext__`, chunks may be pushed instead, if the sink is ready.

        Never the first ones nor those that end the last choice: whoever iterates sees the beginning, the end and
        all errors, and what the sink was not ready for, each chunk once and in order. None takes the offer back.
        """
        ...

    def outcomes(self) -> Sequence[Outcome]:
        """Of every choice, in order. For whoever looks at a request when it is over."""
        ...

    def abort(self) -> None:
        """Give up: the scheduler frees what the request holds within one step."""
        ...


class LoadSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """How busy one data-parallel replica is. Evictable cache does not count as used."""

    dp_rank: int
    num_running_reqs: int
    num_waiting_reqs: int
    num_waiting_uncached_tokens: int
    num_used_tokens: int
    num_cached_tokens: int
    max_total_num_tokens: int
    max_running_requests: int
    gen_throughput: float
    cache_hit_rate: float
    age_s: float
    is_alive: bool = True


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the engine can serve. `detail` says what is wrong: why it cannot, or which part of it is missing."""

    ok: bool
    detail: str = ""
    is_alive: bool = True  # False: nothing but a restart helps; a server that only takes nothing new is alive


class ModelInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What is served."""

    model_path: str
    tokenizer_path: str
    served_model_name: str
    model_type: str
    architecture: str
    context_length: int  # the longest prompt and answer together
    vocab_size: int
    has_chat_template: bool
    default_sampling: Mapping[str, float | int] = {}  # the checkpoint's generation_config
    tool_call_parser: str | None = None  # the format of its tool calls, by srt/parsers' name; None: none
    reasoning_parser: str | None = None  # the same for how it thinks aloud


class EngineClient(Protocol):
    """What HTTP may ask."""

    model_info: ModelInfo
    counts: FrontCounts  # what this process counts for /metrics; HTTP adds to it

    async def generate(self, request: GenerateRequest) -> Generation:
        """Render, tokenise, check and dispatch. Raises RequestError, and then nothing was dispatched."""
        ...

    async def tokenize(self, prompt: Prompt, *, add_special_tokens: bool = True) -> list[int]:
        """Token ids of a prompt. Raises InvalidRequest."""
        ...

    async def detokenize(self, token_ids: Sequence[int], *, skip_special_tokens: bool = True) -> str:
        """Text of token ids. Raises InvalidRequest for an id outside the vocabulary."""
        ...

    def token_bytes(self, token_id: int, *, skip_special_tokens: bool = False) -> bytes:
        """What one token is in the text, alone; of a special token, its name. A lookup: cheap enough for every token.

        Not always whole characters, and never touched by what precedes it. With `skip_special_tokens`, a special
        token is nothing. Raises InvalidRequest outside the vocabulary.
        """
        ...

    def abort(self, rid: str) -> None:
        """End every live request with this exact rid, also while it is tokenised. An unknown one is no error."""
        ...

    def abort_all(self) -> None:
        """End every live request."""
        ...

    async def flush_cache(self, *, timeout_s: float = 0.0) -> str | None:
        """Forget cached prefixes, waiting up to `timeout_s` for idleness. None, or why it was not done."""
        ...

    async def server_states(self) -> Sequence[Mapping[str, Any]]:
        """Facts and figures of each replica's scheduler, for /server_info."""
        ...

    def loads(self) -> Sequence[LoadSnapshot]:
        """The latest load of every replica; costs no message."""
        ...

    def worker_states(self) -> Sequence[Mapping[str, Any]]:
        """Figures of each process that serves HTTP: connections, answers in the making; costs no message."""
        ...

    def all_counts(self) -> Sequence[FrontCounts]:
        """What each process that serves HTTP has counted; costs no message."""
        ...

    def metrics(self) -> Sequence[Family]:
        """Everything that /metrics tells of the engine, beside HTTP; costs no message."""
        ...

    def health(self) -> Health:
        """Liveness from signs of life; cheap, no forward pass."""
        ...
