"""`Engine`: the same server without HTTP, for scripts and tests that are not asynchronous themselves.

with Engine(ServerArgs(model_path="…")) as engine:
    (answer,) = engine.generate(["Once upon a time"], SamplingParams(max_new_tokens=16))
"""

import asyncio
import atexit
import threading
from collections.abc import Coroutine, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Self, TypeVar

from managers.launcher import FoundModel, RunningEngine, find_and_prepare_model, launch
from managers.tokenizer_manager import TokenizerManager
from srt.engine_client import (
    FinishReason,
    GenerateChunk,
    GenerateRequest,
    LogprobOptions,
    Logprobs,
    Prompt,
    TextPrompt,
)
from srt.errors import ServerNotReady, StartupError
from srt.sampling.params import SamplingParams
from srt.server_args.checks import check_args
from srt.server_args.server_args import ServerArgs

R = TypeVar("R")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One choice, whole. `token_ids` includes a stop token, `text` does not."""

    index: int
    text: str
    token_ids: list[int]
    finish: FinishReason
    prompt_tokens: int
    cached_tokens: int
    logprobs: Logprobs | None = None  # of `token_ids`, if asked for
    prompt_logprobs: Logprobs | None = None


class Engine:
    """All processes of a server, started by the constructor and ended by `close`. Raises StartupError.

    The children are started from a thread of the engine's own, which lives as long as they do.
    """

    def __init__(self, args: ServerArgs) -> None:
        check_args(args)
        if args.tokenizer_worker_num > 1:
            raise StartupError("--tokenizer-worker-num is about HTTP, which an Engine does not serve")
        model = find_and_prepare_model(args)
        self._args = args
        self._ready: Future[RunningEngine] = Future()
        self._loop = asyncio.new_event_loop()
        self._close_asked = asyncio.Event()
        self._thread = threading.Thread(target=self._run, args=(model,), name="engine", daemon=True)
        self._thread.start()
        self._running = self._ready.result()
        # Before multiprocessing's own exit handler, which would wait for children that nobody has stopped.
        atexit.register(self.close)

    @property
    def client(self) -> TokenizerManager:
        """What HTTP would talk to. Its methods belong into the engine's loop: see `run`."""
        return self._running.client

    def generate(
        self,
        prompts: Sequence[str | Prompt],
        sampling: SamplingParams | Sequence[SamplingParams],
        *,
        logprobs: LogprobOptions | None = None,
    ) -> list[Answer]:
        """Every choice of every prompt, in order. Raises RequestError."""
        each = [sampling] * len(prompts) if isinstance(sampling, SamplingParams) else sampling
        request = GenerateRequest(
            prompts=[TextPrompt(prompt) if isinstance(prompt, str) else prompt for prompt in prompts],
            sampling=each,
            logprobs=() if logprobs is None else [logprobs] * len(prompts),
            stream=False,
        )
        return self.run(self._generate(request))

    def run(self, coroutine: Coroutine[Any, Any, R]) -> R:
        """The result of a coroutine that runs in the engine's loop, where it may use `client`."""
        if not self._thread.is_alive():
            coroutine.close()
            raise ServerNotReady("the engine is closed")
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def close(self) -> None:
        """Cut off what runs, and end every process. May be called again."""
        atexit.unregister(self.close)
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._close_asked.set)
            self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    async def _generate(self, request: GenerateRequest) -> list[Answer]:
        chunks_by_index: dict[int, list[GenerateChunk]] = {}
        async for chunks in await self.client.generate(request):
            for chunk in chunks:
                chunks_by_index.setdefault(chunk.index, []).append(chunk)
        return [_answer(chunks) for _, chunks in sorted(chunks_by_index.items())]

    def _run(self, model: FoundModel) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._live(model))

    async def _live(self, model: FoundModel) -> None:
        try:
            async with launch(self._args, model) as running:
                self._ready.set_result(running)
                await self._close_asked.wait()
                await running.client.drain(0.0)
        except BaseException as error:
            if self._ready.done():
                raise
            self._ready.set_exception(error)


def _answer(chunks: Sequence[GenerateChunk]) -> Answer:
    last = chunks[-1]
    logprobs: Logprobs | None = None
    for told in (chunk.logprobs for chunk in chunks if chunk.logprobs is not None):
        logprobs = logprobs or Logprobs()
        logprobs.extend(told)
    assert last.finish is not None, f"choice {last.index} ended without a reason"
    return Answer(
        index=last.index,
        text="".join(chunk.text for chunk in chunks),
        token_ids=[token_id for chunk in chunks for token_id in chunk.token_ids],
        finish=last.finish,
        prompt_tokens=last.prompt_tokens,
        cached_tokens=last.cached_tokens,
        logprobs=logprobs,
        prompt_logprobs=next((chunk.prompt_logprobs for chunk in chunks if chunk.prompt_logprobs), None),
    )
