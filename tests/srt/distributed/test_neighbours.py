"""Replicas meet while they start."""

import threading
from pathlib import Path

from srt.distributed.neighbours import FolderNeighbours


def test_nobody_leaves_before_all_have_come(tmp_path: Path) -> None:
    neighbours = [
        FolderNeighbours(tmp_path, name=f"dp{i}", num_processes=3, num_replicas=3) for i in range(3)
    ]
    arrived, left = [], []

    def visit(neighbour: FolderNeighbours, name: int) -> None:
        for place in ("a", "b"):
            arrived.append((place, name))
            neighbour.meet(place)
            left.append((place, sum(where == place for where, _ in arrived)))

    threads = [threading.Thread(target=visit, args=(n, i), daemon=True) for i, n in enumerate(neighbours)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(left) == [("a", 3)] * 3 + [("b", 3)] * 3
