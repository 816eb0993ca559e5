"""`Neighbours`: the replicas of one model on one machine, which share its memory and nothing else.

They meet while they start, so that each measures the memory when all have as much of it as they will, and takes its
part. Afterwards one may die without the others.
"""

import time
from pathlib import Path
from typing import Protocol

POLL_INTERVAL_S = 0.02


class Neighbours(Protocol):
    """All replicas, seen from one rank of one of them."""

    num_replicas: int

    def meet(self, place: str) -> None:
        """Return once every rank of every replica has called this with the same `place`, each once."""
        ...


class NoNeighbours:
    """Neighbours of a model that is served once."""

    num_replicas = 1

    def meet(self, place: str) -> None:
        """Nobody to wait for."""


NO_NEIGHBOURS = NoNeighbours()


class FolderNeighbours:
    """Neighbours that leave a file each, in a folder of the server's own, where they meet.

    `name` is this process's own among `num_processes`. There is no time limit: who starts the server watches over
    all of them, and ends them all if one cannot start.
    """

    def __init__(self, folder: Path, *, name: str, num_processes: int, num_replicas: int) -> None:
        self.num_replicas = num_replicas
        self._folder = folder
        self._name = name
        self._num_processes = num_processes

    def meet(self, place: str) -> None:
        """See Neighbours."""
        (self._folder / f"{place}.{self._name}").touch()
        while sum(1 for _ in self._folder.glob(f"{place}.*")) < self._num_processes:
            time.sleep(POLL_INTERVAL_S)
