"""A front without processes: the test is the scheduler, reads what it is sent and answers with `say`."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from managers.fronts import Fronts
from managers.messages import (
    AbortRequest,
    ControllerNote,
    RequestFinished,
    SchedulerInput,
    TextBatch,
    TokenizedRequest,
    TokenizerManagerInput,
)
from managers.pulses import Pulse, PulseBoard
from managers.replica_board import ReplicaBoard
from managers.request_state import RequestState
from managers.tokenizer_manager import TokenizerManager
from managers.tokenizer_pool import TokenizerPool
from srt.engine_client import (
    FinishReason,
    GenerateChunk,
    GenerateRequest,
    ModelInfo,
    Prompt,
    TextPrompt,
)
from srt.sampling.params import SamplingParams
from srt.tokenizer.tokenizer import Tokenizer
from tests.fakes.tokenizer import VOCAB_SIZE, ByteTokenizer

CONTEXT_LENGTH = 40
LENGTH = FinishReason(type="length")
ABORTED = FinishReason(type="abort", message="aborted")


class World:
    """A TokenizerManager whose scheduler is the test: it reads `sent` and answers with `say`."""

    def __init__(
        self, dp_size: int = 1, *, tokenizer: Tokenizer | None = None, fronts: Fronts | None = None
    ) -> None:
        self.sent: list[SchedulerInput] = []
        self.notes: list[ControllerNote] = []  # what a controller is told
        self.now = 100.0
        self.pulse = Pulse.private()  # of the detokenizer, say; it has not begun
        self._inbox: asyncio.Queue[list[TokenizerManagerInput]] = asyncio.Queue()
        self._num_handled = 0
        pool = TokenizerPool(tokenizer or ByteTokenizer(), vocab_size=VOCAB_SIZE)
        self.manager = TokenizerManager(
            model_info=ModelInfo(
                model_path="m",
                tokenizer_path="m",
                served_model_name="m",
                model_type="llama",
                architecture="L",
                context_length=CONTEXT_LENGTH,
                vocab_size=VOCAB_SIZE,
                has_chat_template=True,
            ),
            pool=pool,
            sender=self,
            receiver=self,
            watchdog_timeout_s=60.0,
            pulses=PulseBoard({"detokenizer": self.pulse}, lambda: self.now),
            replicas=ReplicaBoard(dp_size, tell_controller=self.notes.append if dp_size > 1 else None),
            fronts=fronts,
            clock=lambda: self.now,
        )

    def send(self, message: SchedulerInput) -> None:
        self.sent.append(message)

    async def receive(self) -> list[TokenizerManagerInput]:
        if self._num_handled:
            self._inbox.task_done()
        self._num_handled += 1
        return await self._inbox.get()

    async def say(self, *messages: TokenizerManagerInput) -> None:
        """These arrive, together, and are handled."""
        self._inbox.put_nowait(list(messages))
        await self._inbox.join()

    async def text(self, request_id: int, text: str, *, finish: FinishReason | None = None) -> None:
        await self.say(
            text_batch({request_id: text}, ends=[] if finish is None else [last_word(request_id, finish)])
        )

    @property
    def requests(self) -> list[TokenizedRequest]:
        return [message for message in self.sent if isinstance(message, TokenizedRequest)]

    @property
    def aborted_ids(self) -> list[int]:
        return [i for message in self.sent if isinstance(message, AbortRequest) for i in message.request_ids]

    async def start(self, prompt: str = "hello", *, rid: str | None = None, n: int = 1) -> RequestState:
        return await self.manager.generate(asked(TextPrompt(prompt), rid=rid, n=n))


@asynccontextmanager
async def new_world(
    dp_size: int = 1, *, tokenizer: Tokenizer | None = None, fronts: Fronts | None = None
) -> AsyncIterator[World]:
    world = World(dp_size, tokenizer=tokenizer, fronts=fronts)
    receiving = asyncio.create_task(world.manager.receive_forever())
    try:
        yield world
    finally:
        receiving.cancel()
        world.manager.close()


def asked(
    *prompts: Prompt,
    rid: str | None = None,
    n: int = 1,
    seed: int | None = None,
    max_new_tokens: int | None = 8,
) -> GenerateRequest:
    sampling = SamplingParams(n=n, seed=seed, max_new_tokens=max_new_tokens)
    return GenerateRequest(prompts=prompts, sampling=[sampling] * len(prompts), stream=True, rid=rid)


def last_word(request_id: int, reason: FinishReason = LENGTH) -> RequestFinished:
    return RequestFinished(
        request_id=request_id, reason=reason, prompt_tokens=5, completion_tokens=2, cached_tokens=3
    )


def text_batch(texts: dict[int, str], *, ends: Sequence[RequestFinished] = ()) -> TextBatch:
    """Each character is one token, whose id is its code point."""
    return TextBatch(
        request_ids=list(texts),
        texts=list(texts.values()),
        num_tokens=[len(text) for text in texts.values()],
        token_ids=[ord(character) for text in texts.values() for character in text],
        cached_tokens=[3] * len(texts),
        finished=list(ends),
    )


async def collect(request: RequestState) -> list[GenerateChunk]:
    return [chunk async for chunks in request for chunk in chunks]


async def collect_text(request: RequestState) -> str:
    return "".join(chunk.text for chunk in await collect(request))


async def until(condition: Callable[[], object]) -> None:
    """Let the other tasks run until something holds."""
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110 (there is no event for it, and none is needed in the product)
            await asyncio.sleep(0)


async def until_waiting(request: RequestState) -> None:
    """Let the caller run until it waits for what comes next."""
    await until(lambda: request._waiter is not None)


async def arriving(world: World, *, rid: str) -> asyncio.Task[RequestState]:
    """A request for two answers that is in the hands of the tokenizer when this returns."""
    task = asyncio.create_task(world.start("hello", rid=rid, n=2))
    await asyncio.sleep(0)
    assert not task.done()
    assert world.sent == []
    return task
