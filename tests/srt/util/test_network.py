"""Claiming a port."""

import socket

import pytest

from srt.errors import StartupError
from srt.util.network import claim_port, open_port


def test_a_free_port_is_claimed_but_not_open_yet() -> None:
    with claim_port("127.0.0.1", 0) as sock:
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(sock.getsockname())
        open_port(sock)
        socket.create_connection(sock.getsockname()).close()


def test_a_port_that_another_server_has_claimed_is_refused_in_one_sentence() -> None:
    with claim_port("127.0.0.1", 0) as first:
        port = first.getsockname()[1]
        with pytest.raises(StartupError, match=f"cannot listen on 127.0.0.1:{port}: .*in use"):
            claim_port("127.0.0.1", port)


def test_a_port_with_connections_of_an_earlier_server_can_be_claimed_at_once() -> None:
    with claim_port("127.0.0.1", 0) as sock:
        open_port(sock)
        address = sock.getsockname()
        client = socket.create_connection(address)
        served, _ = sock.accept()
        served.close()  # the server closes first: its port lingers
        client.recv(1)
        client.close()
    claim_port(*address).close()


def test_a_host_that_is_none_of_ours_is_refused() -> None:
    with pytest.raises(StartupError, match=r"192\.0\.2\.1"):
        claim_port("192.0.2.1", 0)
