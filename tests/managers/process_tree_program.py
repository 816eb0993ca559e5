"""A main process that starts two tiny actors, prints where they are, and waits to be killed. Run as a program."""

import asyncio
import sys

from managers.ipc import IpcAddresses
from managers.process import Actor
from managers.process_tree import ProcessTree


async def main() -> None:
    addresses = IpcAddresses.create()
    tree = ProcessTree(addresses, "info")
    tree.start(
        [
            Actor(
                name=name,
                target="tests.managers.tiny_actors:ready_until_killed",
                arguments=(addresses,),
                sweeps=name == "sweeper",
            )
            for name in ("sweeper", "plain")
        ]
    )
    facts = await tree.wait_ready()
    pids = [str(facts[name]["pid"]) for name in ("sweeper", "plain")]
    sys.stdout.write(" ".join([addresses.folder, *pids]) + "\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
