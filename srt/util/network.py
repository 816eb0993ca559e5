"""Claim a TCP port before anything that takes time, so that a port in use is said at once."""

import socket

from srt.errors import StartupError


def listening_socket(host: str, port: int) -> socket.socket:
    """A socket bound to host and port, on which nobody is heard yet. Raises StartupError if that cannot be."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        return _bind(socket.socket(family, kind, protocol), address)
    except OSError as error:
        raise StartupError(
            f"cannot listen on {host}:{port}: {error.strerror}", hint="try another --host or --port"
        ) from None


def _bind(sock: socket.socket, address: tuple[object, ...]) -> socket.socket:
    try:
        try:
            sock.bind(address)
        except OSError:
            # Connections of an earlier server may still linger on the port. Not the first try: two sockets that
            # both allow reuse can be bound to one port until one of them listens, minutes later.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind(address)
    except OSError:
        sock.close()
        raise
    return sock
