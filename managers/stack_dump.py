"""Where a process that gives no sign of life stands: its Python stacks, on the way into the log before it is killed.

Every child writes its stacks to a file of its own when it gets STACKS_SIGNAL, whatever its interpreter is busy with.
One that the kernel does not let run cannot; of such py-spy tells, if it is installed. No stack holds a prompt: only
files, lines and functions.
"""

import asyncio
import faulthandler
import os
import shutil
import signal
import sys
from pathlib import Path

import psutil

from managers.ipc import IpcAddresses

STACKS_SIGNAL = signal.SIGUSR1
# A process that can answer does so in milliseconds; one that cannot must not hold up its end.
ANSWER_S = 1.0
POLL_S = 0.05
PY_SPY_S = 5.0
MAX_CHARS = 20_000


def answer_with_stacks(addresses: IpcAddresses, name: str) -> None:
    """For a child, once: from now on it answers the signal."""
    path = _path(addresses, name)
    descriptor = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC, 0o600)
    faulthandler.register(STACKS_SIGNAL, file=descriptor, all_threads=True, chain=False)


async def stacks_of(addresses: IpcAddresses, name: str, pid: int) -> str:
    """The stacks, or one sentence that says why there are none."""
    state = state_of(pid)
    if state is None:
        return "it is gone"
    if state != psutil.STATUS_STOPPED:
        told = await _told_by_itself(_path(addresses, name), pid)
        if told:
            return told
    told = await _told_by_py_spy(pid)
    return (
        told
        or f"its stacks cannot be had: it does not answer (state: {state}), and py-spy is not there to tell"
    )


def state_of(pid: int) -> str | None:
    """What the kernel says of it; None: it is gone."""
    try:
        return str(psutil.Process(pid).status())
    except psutil.NoSuchProcess:
        return None


def _path(addresses: IpcAddresses, name: str) -> Path:
    return Path(addresses.folder) / f"stacks-{name}"


async def _told_by_itself(path: Path, pid: int) -> str:
    try:
        os.truncate(path, 0)
        os.kill(pid, STACKS_SIGNAL)
    except OSError:
        return ""  # gone, or it never got so far as to answer
    length = -1
    for _ in range(int(ANSWER_S / POLL_S)):
        await asyncio.sleep(POLL_S)
        text = _read(path)
        if text and len(text) == length:
            return text[:MAX_CHARS].rstrip()
        length = len(text)
    return ""


def _read(path: Path) -> str:
    return path.read_text(errors="replace")


async def _told_by_py_spy(pid: int) -> str:
    beside_python = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", "")))
    py_spy = shutil.which("py-spy", path=beside_python)
    if py_spy is None:
        return ""
    process = await asyncio.create_subprocess_exec(
        *(py_spy, "dump", "--nonblocking", "--pid", str(pid)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        output, _ = await asyncio.wait_for(process.communicate(), PY_SPY_S)
    except TimeoutError:
        process.kill()
        return ""
    return output.decode(errors="replace")[:MAX_CHARS].rstrip()
