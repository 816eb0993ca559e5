"""One of several processes that serve HTTP on one port (`--tokenizer-worker-num`): a front.

What `launch_server.py` does in one process when there is one front: an EngineClient, and HTTP in front of it. Here the
connections come from the main process, and so do the orders to drain and to leave.
"""

import asyncio
import logging
import multiprocessing
from pathlib import Path
from typing import assert_never

import uvloop

from managers.connection_dealer import ConnectionInbox
from managers.front_board import Figure, FrontBoard
from managers.front_connection import ConnectedFront, connected_front
from managers.front_place import FrontPlace
from managers.fronts import Fronts
from managers.ipc import AsyncReceiver, IpcAddresses, Sender, send_once
from managers.messages.lifecycle import Drained
from managers.messages.to_controller import ReplicaLost
from managers.messages.to_front import AbortByLabel, Drain, EngineLost, FrontOrder, Hurry, Leave
from managers.process import report_ready
from managers.pulses import HEARTBEAT_S, Pulse
from managers.tokenizer_pool import TokenizerPool
from srt.engine_client import ModelInfo
from srt.entrypoints.http_server import HttpServer, build_app
from srt.server_args.server_args import ServerArgs
from srt.tokenizer.load import load_tokenizer

logger = logging.getLogger(__name__)


def run(
    args: ServerArgs, addresses: IpcAddresses, place: FrontPlace, model_info: ModelInfo, tokenizer_folder: str
) -> None:
    """Serve what the main process hands over, until told to leave."""
    tokenizer = load_tokenizer(Path(tokenizer_folder), args.chat_template)
    pool = TokenizerPool(tokenizer, vocab_size=model_info.vocab_size)
    uvloop.run(_serve(args, addresses, place, model_info, pool))


async def _serve(
    args: ServerArgs, addresses: IpcAddresses, place: FrontPlace, model_info: ModelInfo, pool: TokenizerPool
) -> None:
    own_addresses = addresses.of_front(place.index)
    fronts = Fronts(
        place=place,
        board=FrontBoard.shared(addresses.front_board, place.count),
        others=[
            Sender[FrontOrder](addresses.of_front(index).front_orders)
            for index in range(place.count)
            if index != place.index
        ],
    )
    orders = AsyncReceiver[FrontOrder](own_addresses.front_orders, FrontOrder)
    async with connected_front(args, own_addresses, model_info, pool, fronts) as front:
        row = fronts.own_row
        server = HttpServer(
            build_app(front.client, args),
            read_timeout_s=args.http_read_timeout,
            on_connection=lambda: row.count(Figure.CONNECTIONS_OPENED),
            on_connection_end=lambda: row.count(Figure.CONNECTIONS_CLOSED),
            on_refusal=row.counts.http.refuse,
        )
        serving = asyncio.create_task(server.serve())
        inbox = ConnectionInbox(own_addresses.front_connections, row, server.take)
        beating = asyncio.create_task(_beat(report_ready(addresses, {})))
        obeying = asyncio.create_task(_Orders(addresses, front, server).obey(orders))
        ends = {serving, front.receiving, obeying, beating}
        done, _ = await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()  # only the orders end by themselves; what else ends has failed
        inbox.close()
        beating.cancel()


async def _beat(pulse: Pulse) -> None:
    while True:
        pulse.beat()
        await asyncio.sleep(HEARTBEAT_S)


class _Orders:
    """Does what the main process and the other fronts say."""

    def __init__(self, addresses: IpcAddresses, front: ConnectedFront, server: HttpServer) -> None:
        self._addresses = addresses
        self._client = front.client
        self._server = server
        self._hurry = asyncio.Event()
        self._draining: asyncio.Task[None] | None = None

    async def obey(self, orders: AsyncReceiver[FrontOrder]) -> None:
        """Until the order to leave."""
        while True:
            for order in await orders.receive():
                match order:
                    case AbortByLabel(rid=rid):
                        self._client.abort_for_other_front(rid)
                    case ReplicaLost(dp_rank=dp_rank, reason=reason):
                        self._client.lose_replica(dp_rank, reason)
                    case EngineLost(reason=reason):
                        self._client.fail_all(reason)
                    case Drain(timeout_s=timeout_s):
                        self._draining = asyncio.create_task(self._drain(timeout_s))
                    case Hurry():
                        self._hurry.set()
                    case Leave(grace_s=grace_s):
                        await self._server.close(grace_s)
                        return
                    case _:
                        assert_never(order)

    async def _drain(self, timeout_s: float) -> None:
        await self._client.drain(timeout_s, hurry=self._hurry)
        send_once(self._addresses.launcher_input, Drained(name=multiprocessing.current_process().name))
