"""`Sender[T]` and `Receiver[T]`: one typed ZMQ socket each, and the addresses of all of them.

PUSH/PULL over unix sockets in a private folder. High-water marks are off: a send never blocks a step;
queues are bounded by admission. A frame that is no message of the socket's union is logged and dropped.
"""

import asyncio
import fcntl
import logging
import os
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec
import zmq

from srt.errors import StartupError

logger = logging.getLogger(__name__)

T = TypeVar("T")

_PREFIX = "lockstep-"
# Plain numbers: an enumeration's members make new ones where they are combined, for every message.
_EVENTS, _READABLE = int(zmq.EVENTS), int(zmq.POLLIN)
# A unix socket's path holds at most 107 bytes, and the longest name in the folder is "/detokenizer".
_LONGEST_FOLDER = 107 - len("/detokenizer")


@dataclass(frozen=True, slots=True)
class IpcAddresses:
    """The unix sockets of one server, all in `folder`, which the launcher makes (mode 0700) and removes.

    Where there are several replicas of the model, each has its own addresses: see `of_replica`. So have several
    processes that serve HTTP: see `of_front`.
    """

    folder: str
    dp_rank: int | None = None
    front: int | None = None

    @staticmethod
    def create() -> "IpcAddresses":
        """A fresh private folder. Raises StartupError where temporary files have too long a path for a socket.

        It is held by a lock for as long as this process lives. Folders that a killed server has left
        behind, recognised by their lock being free, are removed first.
        """
        for leftover in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*/lock"):
            _remove_if_unowned(leftover)
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
        if len(str(folder)) > _LONGEST_FOLDER:
            folder.rmdir()
            raise StartupError(
                f"the path {folder} is too long for a unix socket", hint="set a shorter TMPDIR"
            )
        # Locked before it gets its name, so that nobody finds it free. Closed by the end of this process only.
        descriptor = os.open(folder / "lock.new", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        (folder / "lock.new").rename(folder / "lock")
        _held_locks[str(folder)] = descriptor
        return IpcAddresses(str(folder))

    def remove(self) -> None:
        """Remove the folder and everything in it. Only for the process that made it."""
        shutil.rmtree(self.folder, ignore_errors=True)
        descriptor = _held_locks.pop(self.folder, None)
        if descriptor is not None:
            os.close(descriptor)

    def of_replica(self, dp_rank: int) -> "IpcAddresses":
        """The same folder, with scheduler input and rendezvous that are this replica's own."""
        return replace(self, dp_rank=dp_rank)

    def of_front(self, front: int) -> "IpcAddresses":
        """The same folder, with what is this front's own."""
        return replace(self, front=front)

    def _at(self, name: str) -> str:
        return f"ipc://{Path(self.folder) / name}"

    @property
    def scheduler_input(self) -> str:
        """Main, or the data-parallel controller, to scheduler rank 0."""
        return self._at("scheduler" if self.dp_rank is None else f"dp{self.dp_rank}")

    @property
    def controller_input(self) -> str:
        """Main to the data-parallel controller."""
        return self._at("controller")

    @property
    def detokenizer_input(self) -> str:
        """Scheduler rank 0 to detokenizer."""
        return self._at("detokenizer")

    @property
    def tokenizer_manager_input(self) -> str:
        """Detokenizer to main, or to one of several fronts."""
        return self._at("main" if self.front is None else f"front{self.front}")

    @property
    def front_orders(self) -> str:
        """Main, and the other fronts, to one of several fronts."""
        return self._at(f"orders{self.front}")

    @property
    def front_connections(self) -> str:
        """The path where main hands connections to one of several fronts; no ZMQ socket."""
        return str(Path(self.folder) / f"accept{self.front}")

    @property
    def front_board(self) -> str:
        """The file with the figures of several fronts."""
        return str(Path(self.folder) / "fronts")

    @property
    def grammar_compiler_input(self) -> str:
        """Every front to the grammar compiler."""
        return self._at("grammars")

    @property
    def launcher_input(self) -> str:
        """Every child to main, at start."""
        return self._at("launcher")

    @property
    def rendezvous(self) -> str:
        """Where the ranks of the gloo group find each other: a torch `init_method`."""
        name = "rendezvous" if self.dp_rank is None else f"rendezvous{self.dp_rank}"
        return f"file://{Path(self.folder) / name}"


# Folder to the descriptor that holds its lock: of this process, not of a value that others may copy.
_held_locks: dict[str, int] = {}


def _remove_if_unowned(lock: Path) -> None:
    try:
        descriptor = os.open(lock, os.O_RDWR | os.O_CLOEXEC)
    except OSError:  # another user's, or just being removed
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(lock.parent, ignore_errors=True)
    except BlockingIOError:
        pass  # its server lives
    finally:
        os.close(descriptor)


class Sender(Generic[T]):
    """The sending end: connects, never blocks."""

    def __init__(self, address: str) -> None:
        self._socket: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.PUSH)
        _unbounded(self._socket)
        # What is queued for a peer that is gone must not keep this process alive.
        self._socket.setsockopt(zmq.LINGER, 1000)
        self._socket.connect(address)
        self._encoder = msgspec.msgpack.Encoder()

    def send(self, message: T) -> None:
        """Queue one message."""
        self._socket.send(self._encoder.encode(message))

    def close(self) -> None:
        """Let go of the socket; what is queued is still delivered, if the process lives another moment."""
        self._socket.close()


def send_once(address: str, message: Any) -> None:
    """Deliver one message and keep no socket: returns when it is handed over, or after two seconds."""
    context = zmq.Context()
    socket = context.socket(zmq.PUSH)
    socket.connect(address)
    socket.send(msgspec.msgpack.encode(message))
    context.destroy(linger=2000)


def close_all_sockets() -> None:
    """Deliver what every Sender of this process has queued (for at most a second). For a process about to end."""
    zmq.Context.instance().destroy(linger=1000)


class _Inbox(Generic[T]):
    """A bound PULL socket and the decoder of what it carries."""

    def __init__(self, address: str, message_type: Any) -> None:
        self.socket: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.PULL)
        _unbounded(self.socket)
        self.socket.bind(address)
        self._decoder: msgspec.msgpack.Decoder[T] = msgspec.msgpack.Decoder(message_type)

    def drain(self) -> list[T]:
        """Everything that has arrived."""
        messages: list[T] = []
        # Asked beforehand: that nothing is there would be an exception, which costs as much as a message.
        while int(self.socket.getsockopt(_EVENTS)) & _READABLE:
            frame = self.socket.recv(zmq.NOBLOCK)
            try:
                messages.append(self._decoder.decode(frame))
            except msgspec.MsgspecError as error:
                logger.error("dropped a frame of %d bytes that is no message: %s", len(frame), error)
        return messages

    def close(self) -> None:
        self.socket.close(linger=0)


class Receiver(Generic[T]):
    """The receiving end of a synchronous process: binds."""

    def __init__(self, address: str, message_type: Any) -> None:
        self._inbox = _Inbox[T](address, message_type)

    def receive(self, timeout_s: float, *, wake_on: Sequence[int] = ()) -> list[T]:
        """Everything that has arrived, waiting up to `timeout_s` for the first; empty when nothing came.

        It does not wait either while one of the descriptors `wake_on` is readable.
        """
        if wake_on:
            zmq.select([self._inbox.socket, *wake_on], [], [], timeout_s)
        elif not self._inbox.socket.poll(int(timeout_s * 1000)):
            return []
        return self._inbox.drain()

    def close(self) -> None:
        """Let go of the socket."""
        self._inbox.close()


class AsyncReceiver(Generic[T]):
    """The receiving end of a process with an event loop: binds. Used inside one loop, by one task at a time.

    The loop watches the socket's descriptor itself: half the cost of zmq.asyncio, which makes several
    futures a message.
    """

    def __init__(self, address: str, message_type: Any) -> None:
        self._inbox = _Inbox[T](address, message_type)
        self._waiter: asyncio.Future[None] | None = None
        self._watching: asyncio.AbstractEventLoop | None = None

    async def receive(self) -> list[T]:
        """Everything that has arrived, waiting for the first; never empty."""
        while True:
            messages = self._inbox.drain()
            if messages:
                return messages
            await self._wait_readable()

    async def _wait_readable(self) -> None:
        loop = asyncio.get_running_loop()
        if self._watching is None:
            loop.add_reader(self._inbox.socket.fileno(), self._on_readable)
            self._watching = loop
        self._waiter = loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _on_readable(self) -> None:
        if self._waiter is None:
            # The descriptor also reports what is no message (a peer that leaves), and goes on doing so until the
            # socket is read: watched on nobody's behalf, it would keep the loop spinning.
            self._stop_watching()
        elif not self._waiter.done():
            self._waiter.set_result(None)

    def _stop_watching(self) -> None:
        if self._watching is not None:
            self._watching.remove_reader(self._inbox.socket.fileno())
            self._watching = None

    def close(self) -> None:
        """Let go of the socket. Nobody may be waiting for it."""
        self._stop_watching()
        self._inbox.close()


def _unbounded(socket: "zmq.Socket[bytes]") -> None:
    socket.setsockopt(zmq.SNDHWM, 0)
    socket.setsockopt(zmq.RCVHWM, 0)
