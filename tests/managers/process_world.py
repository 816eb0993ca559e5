"""A tree of tiny actors as real processes, for tests."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from managers.ipc import IpcAddresses
from managers.process import Actor
from managers.process_tree import ProcessTree


class World:
    """A process tree in a folder of its own."""

    def __init__(self) -> None:
        self.addresses = IpcAddresses.create()
        self.tree = ProcessTree(self.addresses, "info")

    def start(self, *targets: str) -> None:
        self.tree.start([self.actor(target) for target in targets])

    def start_replicas(self, *targets: str, num_ranks: int = 1) -> None:
        """Each as often as a replica has ranks, named `DP0_TP0` and so on."""
        self.tree.start(
            [
                self.actor(target, name=f"DP{dp_rank}_TP{tp_rank}", dp_rank=dp_rank)
                for dp_rank, target in enumerate(targets)
                for tp_rank in range(num_ranks)
            ]
        )

    def actor(self, target: str, *, name: str | None = None, dp_rank: int | None = None) -> Actor:
        return Actor(
            name=name or target,
            target=f"tests.managers.tiny_actors:{target}",
            arguments=(self.addresses,),
            dp_rank=dp_rank,
        )


@asynccontextmanager
async def new_world() -> AsyncIterator[World]:
    world = World()
    try:
        async with asyncio.timeout(60):
            yield world
    finally:
        await world.tree.close()
        world.addresses.remove()
