"""Compile the native kernels with this machine's compiler, once, and keep the result in the cache directory.

The file's name holds a digest of sources, flags, compiler, processor and torch version: whatever changes, it is built
anew. Ranks and servers that start together build it once, under a file lock.
"""

import fcntl
import hashlib
import logging
import platform
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch

from srt.env import CACHE_DIR, cache_dir, compiler

logger = logging.getLogger(__name__)

FOLDER = Path(__file__).parent
SOURCES = (
    "amx.cpp",
    "attention.cpp",
    "head.cpp",
    "layers.cpp",
    "levels.cpp",
    "pack.cpp",
    "ranks.cpp",
    "sampling.cpp",
    "team.cpp",
)
COMMON_FLAGS = ("-std=c++17", "-O3", "-fopenmp", "-fPIC", "-w")
THIS_PROCESSOR = ("-march=native",)
ANY_PROCESSOR = ()  # what the compiler takes for its platform's least: the portable paths
TIMEOUT_S = 300


class BuildError(Exception):
    """There are no native kernels here; the message is one clause that says why."""


@dataclass(frozen=True, slots=True)
class Build:
    """A library that is there. `seconds` is what it took now; 0 if it was there before."""

    path: Path
    seconds: float


@dataclass(frozen=True, slots=True)
class Toolchain:
    """With what it is built."""

    compiler: str
    flags: tuple[str, ...]
    openmp: Path


def build_library(processor_flags: Sequence[str] = THIS_PROCESSOR) -> Build:
    """The library for this machine. Raises BuildError."""
    tool = Toolchain(_find_compiler(), (*COMMON_FLAGS, *processor_flags), _openmp_of_torch())
    path = cache_dir() / "kernels" / f"kernels-{_digest(tool)}.so"
    if path.exists():
        return Build(path, 0.0)
    with _folder_locked(path.parent):
        if path.exists():
            return Build(path, 0.0)
        logger.info("compiling the native kernels with %s, once", tool.compiler)
        start = time.monotonic()
        _compile(tool, path)
        return Build(path, time.monotonic() - start)


def _find_compiler() -> str:
    if platform.system() != "Linux":
        raise BuildError(f"they are built on Linux only, not on {platform.system()}")
    found = shutil.which(compiler())
    if found is None:
        raise BuildError(f"there is no C++ compiler called {compiler()}")
    return found


def _openmp_of_torch() -> Path:
    """The OpenMP library that this process has loaded already.

    Linked against another one, our threads would compete with torch's instead of being the same.
    """
    torch.get_num_threads()
    with open("/proc/self/maps") as maps:
        loaded = {line.split()[-1] for line in maps if ".so" in line}
    for path in sorted(loaded):
        if Path(path).name.startswith("libgomp"):
            return Path(path)
    raise BuildError("this torch does not use GNU's OpenMP")


def _digest(tool: Toolchain) -> str:
    digest = hashlib.blake2b(digest_size=10)
    parts = [
        tool.compiler,
        _run([tool.compiler, "--version"]),
        *tool.flags,
        *SOURCES,
        str(tool.openmp),
        torch.__version__,
    ]
    # What -march=native means here: a cache directory may be shared by unlike machines.
    parts.append(_run([tool.compiler, *tool.flags, "-Q", "--help=target"]))
    for part in parts:
        digest.update(part.encode() + b"\0")
    for file in sorted(path for path in FOLDER.iterdir() if path.suffix in (".cpp", ".h")):
        digest.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()


def _compile(tool: Toolchain, path: Path) -> None:
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        objects = {source: str(Path(folder, source).with_suffix(".o")) for source in SOURCES}
        commands = [
            [tool.compiler, *tool.flags, "-c", str(FOLDER / source), "-o", target]
            for source, target in objects.items()
        ]
        running = [(command, _start(command)) for command in commands]
        for command, process in running:
            _finish(command, process)
        library = Path(folder, path.name)
        # Not -fopenmp here, which would add the compiler's own libgomp.
        _run([tool.compiler, "-shared", "-o", str(library), *objects.values(), str(tool.openmp)])
        library.rename(path)


def _run(command: list[str]) -> str:
    return _finish(command, _start(command))


def _start(command: list[str]) -> subprocess.Popen[str]:
    try:
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    except OSError as error:
        raise BuildError(f"{command[0]} does not run: {error.strerror}") from None


def _finish(command: list[str], process: subprocess.Popen[str]) -> str:
    try:
        output, _ = process.communicate(timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise BuildError(f"{command[0]} took longer than {TIMEOUT_S} s") from None
    if process.returncode != 0:
        logger.warning("%s\n%s", " ".join(command), output.strip())
        lines = [line for line in output.splitlines() if "error" in line] or output.splitlines() or [""]
        raise BuildError(f"{command[0]} failed: {lines[0].strip()}")
    return output


@contextmanager
def _folder_locked(folder: Path) -> Iterator[None]:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = open(folder / "lock", "w")  # noqa: SIM115 (closed below)
    except OSError as error:
        raise BuildError(f"{folder} ({CACHE_DIR.name}) cannot be written: {error.strerror}") from None
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
