"""Connect a front to what is behind it: its sockets made, its TokenizerManager receiving while the context lasts."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from managers.front_place import ALONE, FrontPlace
from managers.fronts import Fronts
from managers.grammar_desk import GrammarPorts
from managers.ipc import AsyncReceiver, IpcAddresses, Sender
from managers.messages.control import SchedulerLoad
from managers.messages.lifecycle import LauncherInput, Wanted
from managers.messages.to_controller import ControllerInput, ControllerNote, RequestsEnded
from managers.messages.to_grammar_compiler import GrammarCompilerInput
from managers.messages.to_tokenizer_manager import TokenizerManagerInput
from managers.pulses import PulseBoard
from managers.replica_board import ReplicaBoard
from managers.tokenizer_manager import TokenizerManager
from managers.tokenizer_pool import TokenizerPool
from srt.constrained.registry import NONE as NO_GRAMMARS
from srt.engine_client import ModelInfo
from srt.observability.loop_lag import watch_loop
from srt.server_args.server_args import ServerArgs

# The child that compiles grammars, once one is wanted.
GRAMMAR_COMPILER = "grammar_compiler"


@dataclass(frozen=True, kw_only=True)
class ConnectedFront:
    """`receiving` ends by a bug only: then nothing reaches a client any more, as when a process is gone."""

    client: TokenizerManager
    receiving: asyncio.Task[None]
    fronts: Fronts


@asynccontextmanager
async def connected_front(
    args: ServerArgs,
    addresses: IpcAddresses,
    model_info: ModelInfo,
    pool: TokenizerPool,
    fronts: Fronts | None = None,
) -> AsyncIterator[ConnectedFront]:
    """`addresses` are this front's own, if there are several."""
    fronts = fronts or Fronts()
    receiver = AsyncReceiver[TokenizerManagerInput](addresses.tokenizer_manager_input, TokenizerManagerInput)
    sender = engine_sender(args, addresses)
    compiler = Sender[GrammarCompilerInput](addresses.grammar_compiler_input)
    launcher = Sender[LauncherInput](addresses.launcher_input)
    ports = GrammarPorts(compiler=compiler.send, wake=lambda: launcher.send(Wanted(name=GRAMMAR_COMPILER)))
    client = TokenizerManager(
        model_info=model_info,
        pool=pool,
        sender=sender,
        receiver=receiver,
        watchdog_timeout_s=args.watchdog_timeout,
        pulses=PulseBoard.of_all(addresses, but_not=_is_dispensable(args)),
        replicas=ReplicaBoard(args.dp_size, tell_controller=_controller_notes(args, sender, fronts.place)),
        fronts=fronts,
        grammar_ports=None if args.grammar_backend == NO_GRAMMARS else ports,
    )
    receiving = asyncio.create_task(client.receive_forever(), name="tokenizer manager")
    watching = asyncio.create_task(watch_loop(client.counts, lambda: client.num_open > 0), name="loop lag")
    try:
        yield ConnectedFront(client=client, receiving=receiving, fronts=fronts)
    finally:
        receiving.cancel()
        watching.cancel()
        await asyncio.wait({receiving, watching})
        client.close()
        receiver.close()
        for socket in (sender, compiler, launcher):
            socket.close()


def _is_dispensable(args: ServerArgs) -> Callable[[str], bool]:
    """Whether the server can serve without the process of that name: then its silence is no illness of the whole."""
    return lambda name: name == GRAMMAR_COMPILER or (args.dp_size > 1 and name.startswith("scheduler_"))


def engine_sender(args: ServerArgs, addresses: IpcAddresses) -> Sender[ControllerInput]:
    """The socket of the scheduler, or of the controller in front of several."""
    return Sender(addresses.controller_input if args.dp_size > 1 else addresses.scheduler_input)


def _controller_notes(
    args: ServerArgs, sender: Sender[ControllerInput], place: FrontPlace
) -> Callable[[ControllerNote], None] | None:
    if args.dp_size == 1:
        return None
    if place == ALONE:
        return sender.send

    def tell(note: ControllerNote) -> None:
        # All fronts hear how busy the replicas are; one of them passes it on. A loss is the main process's to tell.
        if isinstance(note, RequestsEnded) or (place.index == 0 and isinstance(note, SchedulerLoad)):
            sender.send(note)

    return tell
