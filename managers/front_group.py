"""`FrontGroup`: the main process's hold on several fronts. It starts them, hands them connections, and ends them.

The main process then answers nobody: it accepts, watches its children, and passes on what concerns all.
"""

import asyncio
import logging
import socket
from collections.abc import Sequence
from typing import Any

from managers.connection_dealer import ConnectionDealer, connect_to_inbox
from managers.front_board import FrontBoard
from managers.ipc import IpcAddresses, Sender
from managers.messages.control import Shutdown
from managers.messages.to_controller import ControllerInput, ReplicaLost
from managers.messages.to_front import Drain, EngineLost, FrontOrder, Hurry, Leave
from managers.process import Actor
from managers.process_tree import ProcessTree

logger = logging.getLogger(__name__)

# Beyond what requests get to finish: for their abort.
DRAIN_MARGIN_S = 10.0
# Beyond what a front gives its connections: for it to end, before it is killed.
END_GRACE_S = 2.0


class FrontGroup:
    """`actors` are the fronts, in their order; `engine` is the socket of the scheduler, or of the controller.

    `death` is set, with a sentence, when a process of the server ends by itself.
    """

    def __init__(
        self,
        actors: Sequence[Actor],
        addresses: IpcAddresses,
        tree: ProcessTree,
        engine: Sender[ControllerInput],
        *,
        has_controller: bool,
    ) -> None:
        self._actors = actors
        self._addresses = [addresses.of_front(front) for front in range(len(actors))]
        self._tree = tree
        self._engine = engine
        self._has_controller = has_controller
        self._board = FrontBoard.shared(addresses.front_board, len(actors))
        self._orders: list[Sender[FrontOrder]] = []
        self._inboxes: list[socket.socket] = []
        self._dealer: ConnectionDealer | None = None
        self.death: asyncio.Future[str] = tree.death

    async def start(self) -> None:
        """Start them all; returns when they are ready. Raises StartupError."""
        self._tree.start(self._actors)
        await self._tree.wait_ready()
        self._orders = [Sender[FrontOrder](addresses.front_orders) for addresses in self._addresses]
        self._inboxes = [connect_to_inbox(addresses.front_connections) for addresses in self._addresses]
        self._tree.death.add_done_callback(lambda death: self._tell_all(EngineLost(reason=death.result())))
        self._tree.watch_replicas(self._lose_replica)

    def serve(self, listener: socket.socket) -> None:
        """Hand out what arrives at an open port."""
        self._dealer = ConnectionDealer(listener, self._inboxes, self._board)

    async def drain(self, timeout_s: float, *, hurry: asyncio.Event) -> None:
        """Take nothing new; let what runs finish for `timeout_s`, or until `hurry` is set; then end it."""
        self._tell_all(Drain(timeout_s=timeout_s))
        drained = asyncio.create_task(self._tree.wait_drained([actor.name for actor in self._actors]))
        hurrying = asyncio.create_task(hurry.wait())
        waits: set[asyncio.Future[Any]] = {drained, hurrying, self.death}
        limit_s = timeout_s + DRAIN_MARGIN_S
        await asyncio.wait(waits, timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
        if hurrying.done():
            self._tell_all(Hurry())
            waits.remove(hurrying)
            await asyncio.wait(waits, timeout=DRAIN_MARGIN_S, return_when=asyncio.FIRST_COMPLETED)
        hurrying.cancel()
        drained.cancel()

    async def stop(self, grace_s: float) -> None:
        """Accept nothing more; end every front, which gives its connections `grace_s`."""
        if self._dealer is not None:
            self._dealer.close()
        self._tell_all(Leave(grace_s=grace_s))
        await self._tree.wait_ended([actor.name for actor in self._actors], grace_s + END_GRACE_S)

    def shut_down_engine(self) -> None:
        """Tell every process behind the fronts to end."""
        self._engine.send(Shutdown())

    def close(self) -> None:
        """Let go of all sockets."""
        for inbox in self._inboxes:
            inbox.close()
        for sender in self._orders:
            sender.close()
        self._engine.close()

    def _lose_replica(self, dp_rank: int, why: str) -> None:
        lost = ReplicaLost(dp_rank=dp_rank, reason=why)
        if self._has_controller:
            self._engine.send(lost)
        self._tell_all(lost)

    def _tell_all(self, order: FrontOrder) -> None:
        for sender in self._orders:
            sender.send(order)
