"""Hand connections that one process accepts to several that serve them, and take them there.

The kernel spreads connections by a hash (SO_REUSEPORT) or to whoever wakes first, and a few long-lived ones, those of a
proxy say, may all end up at one process. Here each goes to the front that has the fewest. What travels is the
descriptor, once a connection: requests and answers take no detour.
"""

import asyncio
import logging
import os
import socket
from collections.abc import Callable, Sequence

from managers.front_board import Figure, FrontBoard, FrontRow

logger = logging.getLogger(__name__)

# Accepted in one go, before the loop looks after others.
MAX_ACCEPTED_AT_ONCE = 64
# Between two tries, when descriptors have run out or no front takes any.
RETRY_S = 0.1


class ConnectionDealer:
    """Accepts what arrives at `listener` and hands it out. `fronts` are the sockets to each, not blocking."""

    def __init__(self, listener: socket.socket, fronts: Sequence[socket.socket], board: FrontBoard) -> None:
        self._listener = listener
        self._fronts = fronts
        self._board = board
        self._num_dealt = [0] * len(fronts)
        self._loop = asyncio.get_running_loop()
        self._retry: asyncio.TimerHandle | None = None
        self._waiting: socket.socket | None = None  # accepted, but nobody could take it yet
        listener.setblocking(False)
        self._loop.add_reader(listener, self._on_connections)

    def close(self) -> None:
        """Accept nothing more; may be called again. Connections that were handed out live on."""
        if self._listener.fileno() == -1:
            return
        self._loop.remove_reader(self._listener)
        if self._retry is not None:
            self._retry.cancel()
        if self._waiting is not None:
            self._waiting.close()
        self._listener.close()

    def _on_connections(self) -> None:
        for _ in range(MAX_ACCEPTED_AT_ONCE):
            connection = self._accept()
            if connection is None:
                return
            if not self._deal(connection):
                self._waiting = connection
                self._pause()
                return
            connection.close()  # the front has it now

    def _accept(self) -> socket.socket | None:
        if self._waiting is not None:
            connection, self._waiting = self._waiting, None
            return connection
        try:
            connection, _ = self._listener.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return None
        except OSError as error:  # no descriptors, no memory: there may be some soon
            logger.error("cannot accept a connection: %s", error)
            self._pause()
            return None
        return connection

    def _deal(self, connection: socket.socket) -> bool:
        """Whether a front has it now: the one with the fewest connections, among equals the fewest answers."""
        for front in sorted(range(len(self._fronts)), key=self._load_of):
            try:
                socket.send_fds(self._fronts[front], [b"\0"], [connection.fileno()])
            except OSError:  # it has too many to take, or is gone, which others notice
                continue
            self._num_dealt[front] += 1
            return True
        return False

    def _load_of(self, front: int) -> tuple[int, int]:
        row = self._board.rows[front]
        return self._num_dealt[front] - row[Figure.CONNECTIONS_CLOSED], row[Figure.OPEN_ANSWERS]

    def _pause(self) -> None:
        self._loop.remove_reader(self._listener)
        self._retry = self._loop.call_later(RETRY_S, self._go_on)

    def _go_on(self) -> None:
        self._loop.add_reader(self._listener, self._on_connections)
        self._on_connections()


class ConnectionInbox:
    """Where a front gets its connections: calls `take` with each. Binds `path`."""

    def __init__(self, path: str, row: FrontRow, take: Callable[[socket.socket], None]) -> None:
        self._row = row
        self._take = take
        self._loop = asyncio.get_running_loop()
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(path)
        self._listener.listen(1)
        self._listener.setblocking(False)
        self._dealer: socket.socket | None = None
        self._loop.add_reader(self._listener, self._on_dealer)

    def close(self) -> None:
        """Take no more; may be called again."""
        if self._listener.fileno() == -1:
            return
        self._loop.remove_reader(self._listener)
        self._listener.close()
        if self._dealer is not None:
            self._loop.remove_reader(self._dealer)
            self._dealer.close()

    def _on_dealer(self) -> None:
        self._dealer, _ = self._listener.accept()
        self._dealer.setblocking(False)
        self._loop.remove_reader(self._listener)
        self._loop.add_reader(self._dealer, self._on_connections)

    def _on_connections(self) -> None:
        assert self._dealer is not None
        for _ in range(MAX_ACCEPTED_AT_ONCE):
            try:
                signal, descriptors, _, _ = socket.recv_fds(self._dealer, 1, 1)
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                logger.error("cannot take a connection: %s", error)
                return
            if not signal:  # the main process is gone, or has closed it
                self._loop.remove_reader(self._dealer)
                return
            if not descriptors:
                logger.error("a connection is lost: this process has no descriptor left for it")
                self._row.count(Figure.CONNECTIONS_OPENED)
                self._row.count(Figure.CONNECTIONS_CLOSED)
            for descriptor in descriptors:
                os.set_inheritable(descriptor, False)
                self._take(socket.socket(fileno=descriptor))


def connect_to_inbox(path: str) -> socket.socket:
    """The dealer's end of a front's inbox, which must exist."""
    to_front = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    to_front.connect(path)
    to_front.setblocking(False)
    return to_front
