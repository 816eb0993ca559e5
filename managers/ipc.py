"""`Sender[T]` and `Receiver[T]`: one typed ZMQ socket each, and the addresses of all of them.

PUSH/PULL over unix sockets in a private folder. High-water marks are off: a send never blocks a step;
queues are bounded by admission.
"""

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec
import zmq
import zmq.asyncio

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class IpcAddresses:
    """The unix sockets of one server, all in `folder`, which the launcher makes (mode 0700) and removes."""

    folder: str

    @staticmethod
    def create() -> "IpcAddresses":
        """A fresh private folder. Short on purpose: a unix socket's path holds at most 107 bytes."""
        return IpcAddresses(tempfile.mkdtemp(prefix="lockstep-"))

    def _at(self, name: str) -> str:
        return f"ipc://{Path(self.folder) / name}"

    @property
    def scheduler_input(self) -> str:
        """Main to scheduler rank 0."""
        return self._at("scheduler")

    @property
    def detokenizer_input(self) -> str:
        """Scheduler rank 0 to detokenizer."""
        return self._at("detokenizer")

    @property
    def tokenizer_manager_input(self) -> str:
        """Detokenizer to main."""
        return self._at("main")

    @property
    def launcher_input(self) -> str:
        """Every child to main, at start."""
        return self._at("launcher")

    @property
    def rendezvous(self) -> str:
        """Where the ranks of the gloo group find each other: a torch `init_method`."""
        return f"file://{Path(self.folder) / 'rendezvous'}"


def _unbounded(socket: "zmq.Socket[bytes] | zmq.asyncio.Socket") -> None:
    socket.setsockopt(zmq.SNDHWM, 0)
    socket.setsockopt(zmq.RCVHWM, 0)


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
        """Deliver what is queued (for at most a second) and let go of the socket."""
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


class Receiver(Generic[T]):
    """The receiving end of a synchronous process: binds."""

    def __init__(self, address: str, message_type: Any) -> None:
        self._socket: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.PULL)
        _unbounded(self._socket)
        self._socket.bind(address)
        self._decoder: msgspec.msgpack.Decoder[T] = msgspec.msgpack.Decoder(message_type)

    def receive(self, timeout_s: float) -> list[T]:
        """Everything that has arrived, waiting up to `timeout_s` for the first; empty when nothing came."""
        messages: list[T] = []
        if not self._socket.poll(int(timeout_s * 1000)):
            return messages
        while True:
            try:
                frame = self._socket.recv(zmq.NOBLOCK)
            except zmq.Again:
                return messages
            messages.append(self._decoder.decode(frame))

    def close(self) -> None:
        """Let go of the socket."""
        self._socket.close(linger=0)


class AsyncReceiver(Generic[T]):
    """The receiving end of a process with an event loop: binds."""

    def __init__(self, address: str, message_type: Any) -> None:
        self._socket = zmq.asyncio.Context.instance().socket(zmq.PULL)
        _unbounded(self._socket)
        self._socket.bind(address)
        self._decoder: msgspec.msgpack.Decoder[T] = msgspec.msgpack.Decoder(message_type)

    async def receive(self) -> T:
        """The next message."""
        return self._decoder.decode(await self._socket.recv())

    def close(self) -> None:
        """Let go of the socket."""
        self._socket.close(linger=0)
