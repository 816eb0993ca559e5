"""Connections that one socket accepts and several serve."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from managers.connection_dealer import ConnectionDealer, ConnectionInbox, connect_to_inbox
from managers.front_board import Figure, FrontBoard
from tests.managers.front import until

pytestmark = pytest.mark.anyio


class World:
    """A port, a dealer, and fronts that are lists of what they were given."""

    def __init__(self, folder: Path, num_fronts: int) -> None:
        self.board = FrontBoard.shared(str(folder / "fronts"), num_fronts)
        self.given: list[list[socket.socket]] = [[] for _ in range(num_fronts)]
        paths = [str(folder / f"accept{front}") for front in range(num_fronts)]
        self.inboxes = [
            ConnectionInbox(path, self.board.rows[front], self.given[front].append)
            for front, path in enumerate(paths)
        ]
        self.to_fronts = [connect_to_inbox(path) for path in paths]
        listener = socket.create_server(("127.0.0.1", 0))
        self.address = listener.getsockname()
        self.dealer = ConnectionDealer(listener, self.to_fronts, self.board)
        self.clients: list[socket.socket] = []

    async def connect(self) -> socket.socket:
        """A new client, once a front has its connection."""
        num_given = sum(map(len, self.given))
        client = socket.create_connection(self.address)
        self.clients.append(client)
        await until(lambda: sum(map(len, self.given)) > num_given)
        return client

    def close_one_of(self, front: int) -> None:
        self.given[front].pop().close()
        self.board.rows[front].count(Figure.CONNECTIONS_CLOSED)

    @property
    def num_given(self) -> list[int]:
        return [len(given) for given in self.given]

    def close(self) -> None:
        self.dealer.close()
        for inbox in self.inboxes:
            inbox.close()
        for sock in (*self.to_fronts, *self.clients, *(s for given in self.given for s in given)):
            sock.close()


@asynccontextmanager
async def new_world(folder: Path, num_fronts: int = 2) -> AsyncIterator[World]:
    world = World(folder, num_fronts)
    try:
        yield world
    finally:
        world.close()


async def test_who_is_given_a_connection_speaks_to_its_client(tmp_path: Path) -> None:
    async with new_world(tmp_path, num_fronts=1) as world:
        client = await world.connect()
        (served,) = world.given[0]
        assert served.getpeername() == client.getsockname()
        served.sendall(b"hello")
        assert client.recv(5) == b"hello"
        served.close()
        assert client.recv(1) == b"", "nobody else holds it open"


async def test_each_connection_goes_to_the_front_with_the_fewest(tmp_path: Path) -> None:
    async with new_world(tmp_path, num_fronts=3) as world:
        for _ in range(7):
            await world.connect()
        assert sorted(world.num_given) == [2, 2, 3]
        for _ in range(2):
            world.close_one_of(1)
        for _ in range(2):
            await world.connect()
        assert sorted(world.num_given) == [2, 2, 3], "what was closed does not count"


async def test_equal_numbers_of_connections_go_by_open_answers(tmp_path: Path) -> None:
    async with new_world(tmp_path) as world:
        world.board.rows[0][Figure.OPEN_ANSWERS] = 5
        await world.connect()
        assert world.num_given == [0, 1]


async def test_the_others_serve_while_one_is_gone(tmp_path: Path) -> None:
    async with new_world(tmp_path) as world:
        await until(lambda: world.inboxes[0]._dealer is not None)
        world.inboxes[0].close()
        for _ in range(3):
            await world.connect()
        assert world.num_given == [0, 3]


async def test_who_comes_while_nobody_takes_connections_is_served_later(tmp_path: Path) -> None:
    async with new_world(tmp_path, num_fronts=1) as world:
        await until(lambda: world.inboxes[0]._dealer is not None)
        # As many as the socket holds: the front reads none of them while this loop is not given back.
        with socket.socket() as spare:
            num_queued = 0
            try:
                while True:
                    socket.send_fds(world.to_fronts[0], [b"\0"], [spare.fileno()])
                    num_queued += 1
            except BlockingIOError:
                pass
        client = socket.create_connection(world.address)
        world.clients.append(client)
        world.dealer._on_connections()
        assert world.num_given == [0]
        await until(lambda: len(world.given[0]) == num_queued + 1)
        assert world.given[0][-1].getpeername() == client.getsockname()


async def test_a_closed_dealer_refuses_and_what_it_has_dealt_lives_on(tmp_path: Path) -> None:
    async with new_world(tmp_path) as world:
        client = await world.connect()
        world.dealer.close()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(world.address)
        (served,) = world.given[0]
        served.sendall(b"x")
        assert client.recv(1) == b"x"


async def test_all_that_wait_are_accepted_in_one_go(tmp_path: Path) -> None:
    async with new_world(tmp_path) as world:
        world.clients = [socket.create_connection(world.address) for _ in range(100)]
        async with asyncio.timeout(30):
            await until(lambda: sum(world.num_given) == 100)
        assert world.num_given == [50, 50]
