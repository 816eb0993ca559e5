"""An EngineClient that plays a script: for handler tests, no process.

What it promises: tokens are bytes (ids 0 … 255), a chat prompt is its messages' texts run together, and every
request is kept in `requests` and `generations`. What comes out is up to the test: `client.answers` are played at
once, one a request; without one, the test pushes chunks into `await client.next_generation()` as it likes.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from srt.engine_client import (
    ChatPrompt,
    ChunkSink,
    FinishReason,
    GenerateChunk,
    GenerateRequest,
    Health,
    LoadSnapshot,
    Logprobs,
    ModelInfo,
    Outcome,
    Prompt,
    TextPrompt,
    TokenPrompt,
)
from srt.errors import InvalidRequest
from srt.observability.exposition import Family, Sample
from srt.observability.front_counts import FrontCounts
from srt.observability.metric_catalogue import NUM_RUNNING

STOP = FinishReason(type="stop")
LENGTH = FinishReason(type="length")

MODEL_INFO = ModelInfo(
    model_path="/models/tiny",
    tokenizer_path="/models/tiny",
    served_model_name="tiny",
    model_type="llama",
    architecture="LlamaForCausalLM",
    context_length=4096,
    vocab_size=256,
    has_chat_template=True,
    default_sampling={"temperature": 0.6, "top_p": 0.9},
)

LOAD = LoadSnapshot(
    dp_rank=0,
    num_running_reqs=3,
    num_waiting_reqs=2,
    num_waiting_uncached_tokens=50,
    num_used_tokens=200,
    num_cached_tokens=100,
    max_total_num_tokens=1000,
    max_running_requests=6,
    gen_throughput=12.5,
    cache_hit_rate=0.25,
    age_s=0.0,
)


def chunk(
    text: str = "",
    *,
    index: int = 0,
    finish: FinishReason | None = None,
    token_ids: Sequence[int] | None = None,
    prompt_tokens: int = 5,
    completion_tokens: int = 1,
    cached_tokens: int = 2,
    logprobs: Logprobs | None = None,
    prompt_logprobs: Logprobs | None = None,
) -> GenerateChunk:
    """A chunk whose token ids are its text's bytes unless given."""
    return GenerateChunk(
        index=index,
        text=text,
        token_ids=list(text.encode() if token_ids is None else token_ids),
        prompt_tokens=prompt_tokens,
        completion_tokens=completion_tokens,
        cached_tokens=cached_tokens,
        finish=finish,
        logprobs=logprobs,
        prompt_logprobs=prompt_logprobs,
    )


class FakeGeneration:
    """One running request, whose chunks a test pushes. `is_aborted` and `was_aborted` tell who gave up."""

    def __init__(self, request: GenerateRequest, prompt_token_ids: list[list[int]], num: int) -> None:
        self.request = request
        self.request_id = request.rid or f"made-{num}"
        self.prompt_token_ids = prompt_token_ids
        self.was_aborted = asyncio.Event()
        self._unfinished = len(request.prompts) * request.sampling[0].n
        self._pushed: deque[list[GenerateChunk] | Exception] = deque()
        self._last_chunks: dict[int, GenerateChunk] = {}
        self._has_pushed = asyncio.Event()
        self._sink: ChunkSink | None = None
        self._has_delivered = self._is_awaited = False
        self.num_sunk = 0  # pushes that went the short way

    @property
    def is_aborted(self) -> bool:
        return self.was_aborted.is_set()

    def push(self, *chunks: GenerateChunk) -> None:
        """Let the reader have these in one wake-up, or the sink that it offered."""
        num_open = self._unfinished - sum(chunk.finish is not None for chunk in chunks)
        is_in_the_middle = self._has_delivered and self._is_awaited and not self._pushed and num_open
        if self._sink is not None and is_in_the_middle and self._sink.is_ready():
            self._unfinished = num_open
            self.num_sunk += 1
            self._sink.push(list(chunks))
            return
        self._pushed.append(list(chunks))
        self._has_pushed.set()

    def fail(self, error: Exception) -> None:
        """Let the reader run into this after what was pushed before."""
        self._pushed.append(error)
        self._has_pushed.set()

    def __aiter__(self) -> AsyncIterator[list[GenerateChunk]]:
        return self

    async def __anext__(self) -> list[GenerateChunk]:
        if not self._unfinished:
            raise StopAsyncIteration
        while not self._pushed:
            self._has_pushed.clear()
            self._is_awaited = True
            await self._has_pushed.wait()
        self._is_awaited, self._has_delivered = False, True
        pushed = self._pushed.popleft()
        if isinstance(pushed, Exception):
            raise pushed
        self._last_chunks.update((chunk.index, chunk) for chunk in pushed)
        self._unfinished -= sum(chunk.finish is not None for chunk in pushed)
        return pushed

    def push_to(self, sink: ChunkSink | None) -> None:
        self._sink = sink

    def outcomes(self) -> Sequence[Outcome]:
        return [
            Outcome(
                prompt_tokens=last.prompt_tokens,
                completion_tokens=last.completion_tokens,
                cached_tokens=last.cached_tokens,
                finish=last.finish,
                num_retractions=last.num_retractions,
            )
            for _, last in sorted(self._last_chunks.items())
        ]

    def abort(self) -> None:
        self.was_aborted.set()


Answer = Sequence[Sequence[GenerateChunk] | Exception]


class FakeEngineClient:
    """See the module's docstring. Attributes are there to be set by a test."""

    def __init__(self, *answers: Answer, model_info: ModelInfo = MODEL_INFO) -> None:
        self.model_info = model_info
        self.counts = FrontCounts.private()
        self.answers = deque(answers)
        self.special_token_ids: frozenset[int] = frozenset()
        self.refusal: Exception | None = None  # raised by generate()
        self.is_dispatch_blocked = False  # generate() then waits for ever
        self.flush_refusal: str | None = None
        self.flush_timeouts: list[float] = []
        self.aborted_rids: list[str] = []
        self.num_abort_all = 0
        self.health_now = Health(ok=True)
        self.load_snapshots: Sequence[LoadSnapshot] = (LOAD,)
        self.requests: list[GenerateRequest] = []
        self.generations: list[FakeGeneration] = []
        self.dispatch_was_blocked = asyncio.Event()
        self.dispatch_was_cancelled = asyncio.Event()
        self._dispatched: asyncio.Queue[FakeGeneration] = asyncio.Queue()

    async def generate(self, request: GenerateRequest) -> FakeGeneration:
        if request.complete is not None:
            request = await request.complete(request)
        self.requests.append(request)
        if self.refusal is not None:
            raise self.refusal
        for sampling in request.sampling:
            sampling.check_token_ids(self.model_info.vocab_size)
        prompt_token_ids = [await self.tokenize(prompt) for prompt in request.prompts]
        if self.is_dispatch_blocked:
            self.dispatch_was_blocked.set()
            try:
                await asyncio.Event().wait()
            finally:
                self.dispatch_was_cancelled.set()
        generation = FakeGeneration(request, prompt_token_ids, len(self.generations))
        if self.answers:
            for step in self.answers.popleft():
                if isinstance(step, Exception):
                    generation.fail(step)
                else:
                    generation.push(*step)
        self.generations.append(generation)
        self._dispatched.put_nowait(generation)
        return generation

    async def next_generation(self) -> FakeGeneration:
        """The next request's, as soon as it was dispatched."""
        return await self._dispatched.get()

    async def tokenize(self, prompt: Prompt, *, add_special_tokens: bool = True) -> list[int]:
        match prompt:
            case TextPrompt(text):
                return [0] * add_special_tokens + list(text.encode())
            case TokenPrompt(token_ids):
                self._check(token_ids)
                return token_ids
            case ChatPrompt(messages=messages):
                return list("".join(map(_content, messages)).encode())

    async def detokenize(self, token_ids: Sequence[int], *, skip_special_tokens: bool = True) -> str:
        self._check(token_ids)
        return bytes(token_ids).decode(errors="replace")

    def token_bytes(self, token_id: int, *, skip_special_tokens: bool = False) -> bytes:
        self._check([token_id])
        return b"" if skip_special_tokens and token_id in self.special_token_ids else bytes([token_id])

    def abort(self, rid: str) -> None:
        self.aborted_rids.append(rid)

    def abort_all(self) -> None:
        self.num_abort_all += 1

    async def flush_cache(self, *, timeout_s: float = 0.0) -> str | None:
        self.flush_timeouts.append(timeout_s)
        return self.flush_refusal

    async def server_states(self) -> Sequence[Mapping[str, Any]]:
        return [{"dp_rank": 0, "num_running_reqs": 3, "max_total_num_tokens": 1000}]

    def loads(self) -> Sequence[LoadSnapshot]:
        return self.load_snapshots

    def worker_states(self) -> Sequence[Mapping[str, Any]]:
        return [{"tokenizer_worker": 0, "num_connections": 1}]

    def all_counts(self) -> Sequence[FrontCounts]:
        return [self.counts]

    def metrics(self) -> Sequence[Family]:
        return [Family(NUM_RUNNING, [Sample(dict.fromkeys(NUM_RUNNING.labels, "x"), 3)])]

    def health(self) -> Health:
        return self.health_now

    def _check(self, token_ids: Sequence[int]) -> None:
        if not all(0 <= token_id < self.model_info.vocab_size for token_id in token_ids):
            raise InvalidRequest("a token id is outside the vocabulary", param="tokens")


def _content(message: Mapping[str, Any]) -> str:
    content = message.get("content", "")
    return content if isinstance(content, str) else "".join(part["text"] for part in content)
