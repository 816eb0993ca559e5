"""Start the processes of one server and give back a connected TokenizerManager.

Whatever happens inside `launch`, or while a server starts, nothing is left behind: no process, no socket.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from managers.front_connection import GRAMMAR_COMPILER, connected_front, engine_sender
from managers.front_group import FrontGroup
from managers.front_place import FrontPlace
from managers.fronts import Fronts
from managers.ipc import IpcAddresses
from managers.process import Actor, Facts, keep_out_of_garbage_collection
from managers.process_tree import ProcessTree
from managers.startup_summary import startup_summary
from managers.tokenizer_manager import TokenizerManager
from managers.tokenizer_pool import TokenizerPool
from managers.watchdog import watched
from srt.configs.checkpoint import find_model
from srt.configs.load import load_model_config
from srt.configs.model_config import ModelConfig
from srt.engine_client import ModelInfo
from srt.parsers.detect import ParserChoices, check_parser_names, choose_parsers
from srt.runtime_plan.resolve import resolve_load_balance
from srt.server_args.server_args import ServerArgs
from srt.tokenizer.load import load_tokenizer, prepare_tokenizer

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class FoundModel:
    """What the processes need to know of a checkpoint before they start."""

    config: ModelConfig
    tokenizer_folder: Path


def find_and_prepare_model(args: ServerArgs) -> FoundModel:
    """Find the checkpoint, read its configuration, convert its tokenizer if need be. Raises StartupError."""
    check_parser_names(args.tool_call_parser, args.reasoning_parser)
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
    fronts: Fronts


@dataclass(frozen=True, kw_only=True)
class _StartedEngine:
    """The processes behind the front, ready, and what the front needs."""

    tree: ProcessTree
    addresses: IpcAddresses
    facts: Facts
    model_info: ModelInfo
    pool: TokenizerPool


@asynccontextmanager
async def launch(args: ServerArgs, model: FoundModel) -> AsyncIterator[RunningEngine]:
    """All processes of a server while the context lasts, this one the front.

    Raises StartupError, and then all are gone again.
    """
    async with (
        _started_engine(args, model) as engine,
        connected_front(args, engine.addresses, engine.model_info, engine.pool) as front,
    ):
        client, tree = front.client, engine.tree
        # It ends by a bug only; then nothing reaches a client any more, as when a process is gone.
        front.receiving.add_done_callback(lambda task: tree.fail(f"the tokenizer manager has ended: {task}"))
        tree.death.add_done_callback(lambda death: client.fail_all(death.result()))
        tree.watch_replicas(client.lose_replica)
        yield RunningEngine(client=client, facts=engine.facts, death=tree.death, fronts=front.fronts)
        if not tree.death.done():
            client.shut_down()
            await tree.stop()


@asynccontextmanager
async def launch_fronts(args: ServerArgs, model: FoundModel) -> AsyncIterator[FrontGroup]:
    """The same with `--tokenizer-worker-num` fronts, which are processes of their own."""
    async with _started_engine(args, model) as engine:
        engine.pool.close()
        actors = [
            Actor(
                name=f"tokenizer_worker_{index}",
                target="http_worker:run",
                arguments=(
                    args,
                    engine.addresses,
                    FrontPlace(index, args.tokenizer_worker_num),
                    engine.model_info,
                    str(model.tokenizer_folder),
                ),
            )
            for index in range(args.tokenizer_worker_num)
        ]
        group = FrontGroup(
            actors,
            engine.addresses,
            engine.tree,
            engine_sender(args, engine.addresses),
            has_controller=args.dp_size > 1,
        )
        try:
            await group.start()
            yield group
            if not engine.tree.death.done():
                group.shut_down_engine()
                await engine.tree.stop()
        finally:
            group.close()


@asynccontextmanager
async def _started_engine(args: ServerArgs, model: FoundModel) -> AsyncIterator[_StartedEngine]:
    addresses = IpcAddresses.create()
    try:
        tree = ProcessTree(addresses, args.log_level, args.log_format)
        try:
            tree.start(_actors(args, addresses, model))
            tree.offer(_grammar_compiler(args, addresses, model))
            pool = await asyncio.to_thread(_tokenizer_pool, args, model)
            told = await tree.wait_ready()
            # The replicas differ at most in how much memory each found.
            replicas = [told[scheduler_name(args, dp_rank, 0)] for dp_rank in range(args.dp_size)]
            facts = min(replicas, key=lambda facts: int(facts["max_total_num_tokens"] or 0))
            if args.dp_size > 1:
                method, why = _load_balance(args)
                facts = {**facts, "load_balance_method": method, "load_balance_method_reason": why}
            parsers = choose_parsers(args.tool_call_parser, args.reasoning_parser, pool.chat_template)
            model_info = _model_info(args, model, facts, pool, parsers)
            facts = {**facts, **parsers.facts()}
            logger.info("started:\n%s", "\n".join(startup_summary(model_info, facts)))
            keep_out_of_garbage_collection()
            async with watched(tree, addresses, args.watchdog_timeout):
                yield _StartedEngine(
                    tree=tree, addresses=addresses, facts=facts, model_info=model_info, pool=pool
                )
        finally:
            await tree.close()
    finally:
        addresses.remove()


def scheduler_name(args: ServerArgs, dp_rank: int, tp_rank: int) -> str:
    """The process name of one rank's scheduler."""
    return f"scheduler_TP{tp_rank}" if args.dp_size == 1 else f"scheduler_DP{dp_rank}_TP{tp_rank}"


def _actors(args: ServerArgs, addresses: IpcAddresses, model: FoundModel) -> list[Actor]:
    folder = str(model.tokenizer_folder)
    detokenizer = Actor(
        name="detokenizer",
        target="managers.detokenizer_manager:run",
        arguments=(addresses, folder, args.dp_size, args.tokenizer_worker_num),
        sweeps=True,
    )
    schedulers = [
        actor for dp_rank in range(args.dp_size) for actor in _replica(args, addresses, model, dp_rank)
    ]
    if args.dp_size == 1:
        return [detokenizer, *schedulers]
    controller = Actor(
        name="data_parallel_controller",
        target="managers.data_parallel_controller:run",
        arguments=(addresses, args.dp_size, _load_balance(args)[0], args.watchdog_timeout),
    )
    return [detokenizer, controller, *schedulers]


def _grammar_compiler(args: ServerArgs, addresses: IpcAddresses, model: FoundModel) -> Actor:
    # On demand: most servers never see a grammar, and it takes seconds and 250 MB.
    return Actor(
        name=GRAMMAR_COMPILER,
        target="managers.grammar_compiler:run",
        arguments=(args, addresses, model.config, str(model.tokenizer_folder)),
    )


def _replica(args: ServerArgs, addresses: IpcAddresses, model: FoundModel, dp_rank: int) -> list[Actor]:
    """The ranks that serve the model once."""
    is_alone = args.dp_size == 1
    own_addresses = addresses if is_alone else addresses.of_replica(dp_rank)
    return [
        Actor(
            name=scheduler_name(args, dp_rank, tp_rank),
            target="managers.scheduler.process:run",
            arguments=(args, own_addresses, model.config, str(model.tokenizer_folder), tp_rank),
            dp_rank=None if is_alone else dp_rank,
        )
        for tp_rank in range(args.tp_size)
    ]


def _load_balance(args: ServerArgs) -> tuple[str, str]:
    return resolve_load_balance(args.load_balance_method, use_radix_cache=not args.disable_radix_cache)


def _tokenizer_pool(args: ServerArgs, model: FoundModel) -> TokenizerPool:
    tokenizer = load_tokenizer(model.tokenizer_folder, args.chat_template)
    return TokenizerPool(tokenizer, vocab_size=model.config.vocab_size)


def _model_info(
    args: ServerArgs, model: FoundModel, facts: Facts, pool: TokenizerPool, parsers: ParserChoices
) -> ModelInfo:
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
        tool_call_parser=parsers.tool_calls.name,
        reasoning_parser=parsers.reasoning.name,
    )
