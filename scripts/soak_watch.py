"""What scripts/soak.py sees of its server: sizes of each process, the queue, over time; and the report of it."""

import asyncio
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import psutil

from bench_server import OwnServer
from line_plot import LinePlot

MIB = 2**20
NUM_SAMPLES, SHORTEST_INTERVAL_S = 360, 2.0
SLACK_BYTES = MIB


@dataclass(frozen=True)
class ProcessSize:
    """One process, at one moment."""

    num_bytes: int  # see memory_of
    num_descriptors: int
    num_threads: int


@dataclass(frozen=True)
class Sample:
    """The server at one moment of the run."""

    at_s: float
    sizes: Mapping[str, ProcessSize]
    num_running: int
    num_waiting: int


@dataclass(frozen=True)
class Growth:
    """Memory of one process, in bytes, before the run and after it."""

    begun: float
    ended: float

    @property
    def share(self) -> float:
        """How much more at the end."""
        return self.ended / self.begun - 1

    def is_more_than(self, max_share: float) -> bool:
        """Whether it has grown by more than that, and by more than what is nothing."""
        return self.ended - self.begun > max(max_share * self.begun, SLACK_BYTES)


def call(server: OwnServer, path: str, body: Any = None) -> Any:
    """A request that must succeed."""
    data = None if body is None else json.dumps(body).encode()
    request = Request(f"{server.url}{path}", data, {"Content-Type": "application/json"})
    with urlopen(request, timeout=120) as response:
        return json.load(response)


def memory_of(smaps_rollup: str) -> int:
    """Bytes of what is nobody else's and in no file, of a process's `smaps_rollup`.

    Pages of libraries are left out. The system reads and drops them as it likes; and while another program on the
    machine has the same library loaded, they are not this process's own: torch's are some MiB, which come and go so.
    """
    fields = dict(line.split(":", 1) for line in smaps_rollup.splitlines()[1:])
    return sum(int(fields[name].split()[0]) for name in ("Anonymous", "Swap")) * 1024


def sizes_of(server: OwnServer) -> dict[str, ProcessSize]:
    """Each process by its title; those of grammars come and go, and count as none."""
    main = psutil.Process(server.pid)
    sizes = {}
    for process in [main, *main.children(recursive=True)]:
        try:
            title = "main" if process.pid == main.pid else " ".join(process.cmdline()).strip()
            if title == "main" or title.startswith("lockstep::"):
                memory = memory_of(Path(f"/proc/{process.pid}/smaps_rollup").read_text(encoding="ascii"))
                name = title.removeprefix("lockstep::")
                sizes[name] = ProcessSize(memory, process.num_fds(), process.num_threads())
        except (psutil.NoSuchProcess, FileNotFoundError, ProcessLookupError):
            continue
    return sizes


async def watch(server: OwnServer, seconds: float, samples: list[Sample]) -> None:
    """Take samples until cancelled."""
    interval_s = max(seconds / NUM_SAMPLES, SHORTEST_INTERVAL_S)
    begun = time.monotonic()
    while True:
        samples.append(await asyncio.to_thread(_look, server, begun))
        await asyncio.sleep(interval_s)


def _look(server: OwnServer, begun: float) -> Sample:
    loads = call(server, "/v1/loads")["loads"]
    return Sample(
        at_s=time.monotonic() - begun,
        sizes=sizes_of(server),
        num_running=sum(load["num_running_reqs"] for load in loads),
        num_waiting=sum(load["num_waiting_reqs"] for load in loads),
    )


def plots(samples: Sequence[Sample]) -> dict[str, LinePlot]:
    """By file name."""
    names = list(samples[-1].sizes)
    first = {name: next(s.sizes[name] for s in samples if name in s.sizes) for name in names}

    def curve(of: Any) -> list[tuple[float, float]]:
        return [(sample.at_s / 60, value) for sample in samples if (value := of(sample)) is not None]

    def per_process(of: Any) -> dict[str, list[tuple[float, float]]]:
        return {
            name: curve(lambda s, name=name: of(name, s.sizes[name]) if name in s.sizes else None)
            for name in names
        }

    return {
        "memory": LinePlot(
            title="Memory of each process, less what it had at the beginning",
            x_label="minutes",
            y_label="MiB",
            curves=per_process(lambda name, size: (size.num_bytes - first[name].num_bytes) / MIB),
            from_zero=False,
        ),
        "descriptors": LinePlot(
            title="Open descriptors of each process",
            x_label="minutes",
            y_label="",
            curves=per_process(lambda _, size: float(size.num_descriptors)),
        ),
        "queue": LinePlot(
            title="Answers",
            x_label="minutes",
            y_label="",
            curves={
                "running": curve(lambda s: float(s.num_running)),
                "waiting": curve(lambda s: float(s.num_waiting)),
            },
        ),
    }


def write_report(folder: Path, text: str, samples: Sequence[Sample]) -> None:
    """soak.md and what it shows."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, plot in plots(samples).items():
        (folder / f"{name}.svg").write_text(plot.svg(), encoding="utf-8")
    pictures = "\n\n".join(f"![{plot.title}]({name}.svg)" for name, plot in plots(samples).items())
    (folder / "soak.md").write_text(f"# A soak\n\n{text}\n\n{pictures}\n", encoding="utf-8")
