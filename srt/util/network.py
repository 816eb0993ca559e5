"""Claim a TCP port before anything that takes time, so that a port in use is said at once; open it when ready."""

import socket

from srt.errors import StartupError

BACKLOG = 2048


def claim_port(host: str, port: int) -> socket.socket:
    """A socket bound to host and port, which refuses connections until `open_port`. Raises StartupError."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        return _bind(socket.socket(family, kind, protocol), address)
    except OSError as error:
        raise StartupError(
            f"cannot listen on {host}:{port}: {error.strerror}", hint="try another --host or --port"
        ) from None


def open_port(sock: socket.socket) -> None:
    """Let clients connect; they wait until somebody accepts them."""
    # Now, not earlier: connections inherit it, so that what is left of them does not keep the next server out.
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.listen(BACKLOG)


def _bind(sock: socket.socket, address: tuple[object, ...]) -> socket.socket:
    try:
        # With the option, because connections of an earlier server may linger on the port. Without it afterwards:
        # two sockets that both have it can be bound to one port, until one of them listens, minutes later.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(address)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)
    except OSError:
        sock.close()
        raise
    return sock
