"""What systemd is told of a server that it has started (Type=notify): that it serves, and that it stops."""

import logging
import socket

from srt.env import service_manager_socket

logger = logging.getLogger(__name__)

READY, STOPPING = "READY=1", "STOPPING=1"


def tell_service_manager(state: str) -> None:
    """Does nothing where no manager has asked for it. Never raises, and waits for nobody."""
    address = service_manager_socket()
    if not address:
        return
    if address.startswith("@"):  # a name that is no file
        address = "\0" + address[1:]
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as manager:
            manager.sendto(state.encode(), address)
    except OSError as error:
        logger.warning("the service manager cannot be told %s: %s", state, error)
