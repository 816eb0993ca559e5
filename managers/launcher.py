"""Spawn and supervise the process tree of one server; give back a connected TokenizerManager.

Whatever happens inside `launch`, or while a server starts, nothing is left behind: no process, no socket.
"""

import asyncio
import logging
import signal
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any

from managers.ipc import AsyncReceiver, IpcAddresses, Sender
from managers.messages.lifecycle import Failed, LauncherInput, Ready
from managers.messages.to_scheduler import SchedulerInput
from managers.messages.to_tokenizer_manager import TokenizerManagerInput
from managers.process import Actor, Facts, keep_out_of_garbage_collection, start_actor
from managers.startup_summary import startup_summary
from managers.tokenizer_manager import TokenizerManager
from managers.tokenizer_pool import TokenizerPool
from srt.configs.checkpoint import find_model
from srt.configs.load import load_model_config
from srt.configs.model_config import ModelConfig
from srt.engine_client import ModelInfo
from srt.errors import StartupError
from srt.server_args.server_args import ServerArgs
from srt.tokenizer.load import load_tokenizer, prepare_tokenizer

logger = logging.getLogger(__name__)

# How long a child that was told to stop may take before it is killed.
STOP_GRACE_S = 10.0
# How long a killed one may take to be gone: longer only when the kernel itself hangs, in a driver say.
KILL_GRACE_S = 10.0
# Between two lines that say whom the start still waits for.
PROGRESS_INTERVAL_S = 10.0
# How long the last words of a dead child may take to get here: they are already in the socket.
LAST_WORDS_S = 0.1


class ProcessTree:
    """The children of one server, from start to end. Used inside a running event loop."""

    def __init__(self, addresses: IpcAddresses, log_level: str) -> None:
        self._addresses = addresses
        self._log_level = log_level
        self._processes: list[SpawnProcess] = []
        self._loop = asyncio.get_running_loop()
        self._started = time.monotonic()
        self._facts: dict[str, Facts] = {}
        self._all_ready = asyncio.Event()
        self._num_alive = 0
        self._all_ended = asyncio.Event()
        self._is_stopping = False
        self._reports = AsyncReceiver[LauncherInput](addresses.launcher_input, LauncherInput)
        self._listening = asyncio.create_task(self._listen(), name="reports of children")
        self.death: asyncio.Future[str] = self._loop.create_future()
        """Set once, with one sentence, when a child fails, or ends although nobody told it to."""

    def start(self, actors: Sequence[Actor]) -> None:
        """Start a child for each."""
        for actor in actors:
            process = start_actor(actor, self._addresses, self._log_level)
            self._processes.append(process)
            self._num_alive += 1
            self._loop.add_reader(process.sentinel, self._on_end, process)

    async def wait_ready(self) -> dict[str, Facts]:
        """What each child told when it was ready, by name. Raises StartupError when one fails or dies."""
        all_ready = asyncio.create_task(self._all_ready.wait())
        waits: set[asyncio.Future[Any]] = {all_ready, self.death}
        try:
            while not self._all_ready.is_set():
                done, _ = await asyncio.wait(
                    waits, timeout=PROGRESS_INTERVAL_S, return_when=asyncio.FIRST_COMPLETED
                )
                if self.death.done():
                    raise StartupError(self.death.result())
                if not done:
                    missing = ", ".join(name for name in self._names if name not in self._facts)
                    logger.info("still waiting for %s (%.0f s)", missing, time.monotonic() - self._started)
        finally:
            all_ready.cancel()
        return self._facts

    def fail(self, why: str) -> None:
        """Note that the server cannot go on. The first reason counts."""
        if not self.death.done() and not self._is_stopping:
            self.death.set_result(why)

    async def stop(self, grace_s: float = STOP_GRACE_S) -> None:
        """Wait up to `grace_s` for children that were told to end."""
        self._is_stopping = True
        try:
            async with asyncio.timeout(grace_s):
                await self._all_ended.wait()
        except TimeoutError:
            alive = ", ".join(process.name for process in self._processes if process.is_alive())
            logger.warning("%s did not stop within %.0f s and will be killed", alive, grace_s)

    async def close(self) -> None:
        """End every child that still runs, now, and forget them all."""
        self._is_stopping = True
        for process in self._processes:
            self._loop.remove_reader(process.sentinel)
            process.kill()
        for process in self._processes:
            process.join(KILL_GRACE_S)
            if process.is_alive():
                logger.error("%s, process %d, cannot be killed", process.name, process.pid or 0)
            else:
                process.close()
        self._processes.clear()
        self._listening.cancel()
        await asyncio.wait({self._listening})
        self._reports.close()

    @property
    def _names(self) -> list[str]:
        return [process.name for process in self._processes]

    async def _listen(self) -> None:
        while True:
            for report in await self._reports.receive():
                match report:
                    case Ready():
                        self._on_ready(report)
                    case Failed() if report.name in self._facts:
                        self.fail(f"{report.name} has failed: {report.message}")
                    case Failed():
                        self.fail(f"{report.name} cannot start: {report.message}")

    def _on_ready(self, report: Ready) -> None:
        self._facts[report.name] = report.facts
        logger.info(
            "%s is ready (%d of %d, after %.1f s)",
            report.name,
            len(self._facts),
            len(self._processes),
            time.monotonic() - self._started,
        )
        if len(self._facts) == len(self._processes):
            self._all_ready.set()

    def _on_end(self, process: SpawnProcess) -> None:
        self._loop.remove_reader(process.sentinel)
        process.join(1.0)  # its descriptors are closed already: it is all but gone
        self._num_alive -= 1
        if self._num_alive == 0:
            self._all_ended.set()
        # Its own words, which may just be arriving, say more than ours.
        self._loop.call_later(
            LAST_WORDS_S, self.fail, f"{process.name} has died ({_ending(process.exitcode)})"
        )


@dataclass(frozen=True, kw_only=True)
class FoundModel:
    """What the processes need to know of a checkpoint before they start."""

    config: ModelConfig
    tokenizer_folder: Path


def find_and_prepare_model(args: ServerArgs) -> FoundModel:
    """Find the checkpoint, read its configuration, convert its tokenizer if need be. Raises StartupError."""
    path = find_model(args.model_path)
    config = load_model_config(path)
    folder = prepare_tokenizer(Path(args.tokenizer_path) if args.tokenizer_path else path)
    return FoundModel(config=config, tokenizer_folder=folder)


@dataclass(frozen=True, kw_only=True)
class RunningEngine:
    """All processes, ready. `death` is set, with a sentence, when one of them ends by itself."""

    client: TokenizerManager
    facts: Mapping[str, Any]
    death: asyncio.Future[str]


@asynccontextmanager
async def launch(args: ServerArgs, model: FoundModel) -> AsyncIterator[RunningEngine]:
    """All processes of a server while the context lasts. Raises StartupError, and then all are gone again."""
    addresses = IpcAddresses.create()
    try:
        tree = ProcessTree(addresses, args.log_level)
        try:
            tree.start(_actors(args, addresses, model))
            pool = await asyncio.to_thread(_tokenizer_pool, args, model)
            facts = (await tree.wait_ready())[scheduler_name(0)]
            model_info = _model_info(args, model, facts, pool)
            logger.info("started:\n%s", "\n".join(startup_summary(model_info, facts)))
            keep_out_of_garbage_collection()
            async with _connected(model_info, pool, addresses, args, tree) as client:
                yield RunningEngine(client=client, facts=facts, death=tree.death)
                if not tree.death.done():
                    client.shut_down()
                    await tree.stop()
        finally:
            await tree.close()
    finally:
        addresses.remove()


@asynccontextmanager
async def _connected(
    model_info: ModelInfo, pool: TokenizerPool, addresses: IpcAddresses, args: ServerArgs, tree: ProcessTree
) -> AsyncIterator[TokenizerManager]:
    receiver = AsyncReceiver[TokenizerManagerInput](addresses.tokenizer_manager_input, TokenizerManagerInput)
    sender = Sender[SchedulerInput](addresses.scheduler_input)
    client = TokenizerManager(
        model_info=model_info,
        pool=pool,
        sender=sender,
        receiver=receiver,
        watchdog_timeout_s=args.watchdog_timeout,
    )
    receiving = asyncio.create_task(client.receive_forever(), name="tokenizer manager")
    # It ends by a bug only; then nothing reaches a client any more, as when a process is gone.
    receiving.add_done_callback(lambda task: tree.fail(f"the tokenizer manager has ended: {task}"))
    tree.death.add_done_callback(lambda death: client.fail_all(death.result()))
    try:
        yield client
    finally:
        receiving.cancel()
        await asyncio.wait({receiving})
        client.close()
        receiver.close()
        sender.close()


def scheduler_name(rank: int) -> str:
    """The process name of one rank's scheduler."""
    return f"scheduler_TP{rank}"


def _actors(args: ServerArgs, addresses: IpcAddresses, model: FoundModel) -> list[Actor]:
    folder = str(model.tokenizer_folder)
    schedulers = [
        Actor(
            name=scheduler_name(rank),
            target="managers.scheduler.process:run",
            arguments=(args, addresses, model.config, folder, rank),
        )
        for rank in range(args.tp_size)
    ]
    detokenizer = Actor(
        name="detokenizer",
        target="managers.detokenizer_manager:run",
        arguments=(addresses, folder),
        sweeps=True,
    )
    return [detokenizer, *schedulers]


def _tokenizer_pool(args: ServerArgs, model: FoundModel) -> TokenizerPool:
    tokenizer = load_tokenizer(model.tokenizer_folder, args.chat_template)
    return TokenizerPool(tokenizer, vocab_size=model.config.vocab_size)


def _model_info(args: ServerArgs, model: FoundModel, facts: Facts, pool: TokenizerPool) -> ModelInfo:
    # An answer lives in the KV cache, so the cache bounds it as the model does.
    context_length = min(int(facts["context_length"] or 0), int(facts["max_total_num_tokens"] or 0))
    path = str(model.config.path)
    return ModelInfo(
        model_path=path,
        tokenizer_path=args.tokenizer_path or path,
        # The default model's file is called after the model, then its quantisation.
        served_model_name=args.served_model_name or args.model_path or model.config.path.name.split(".")[0],
        model_type=model.config.model_type,
        architecture=model.config.architecture,
        context_length=context_length,
        vocab_size=model.config.vocab_size,
        has_chat_template=pool.has_chat_template,
        default_sampling=model.config.default_sampling,
    )


def _ending(exit_code: int | None) -> str:
    if exit_code is not None and exit_code < 0:
        return f"killed by {signal.Signals(-exit_code).name}"
    return f"exit code {exit_code}"
