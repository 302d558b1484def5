"""Free ports, and starting again when one was taken in between."""

import socket
from collections.abc import Callable
from contextlib import suppress

from isotherm.stack.process import Process, ProcessDiedError

HOST = "127.0.0.1"
ATTEMPTS = 4
"""A port is lost to somebody else once in thousands of starts; four losses in a row are no accident."""
WHOLE_START = 1000
"""Lines of a log in which a server may say that its port is taken; a JVM goes on for pages after that."""


def free_ports(count: int) -> list[int]:
    """Different ports of 127.0.0.1 that nobody listens on at this moment."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for held in sockets:
            held.bind((HOST, 0))
        return [held.getsockname()[1] for held in sockets]
    finally:
        for held in sockets:
            held.close()


def accepts_connections(port: int) -> bool:
    """Whether somebody listens on the port."""
    with suppress(OSError), socket.create_connection((HOST, port), timeout=1):
        return True
    return False


def start_on_free_ports(
    ports: list[int],
    start: Callable[[list[int]], Process],
    wait: Callable[[Process], None],
) -> Process:
    """Start a server on these ports and wait until it is ready; again with others if one was taken meanwhile.

    Raises:
        StackError: it does not start for another reason, or the ports are taken time and again.
    """
    for _ in range(ATTEMPTS - 1):
        process = start(ports)
        try:
            wait(process)
        except ProcessDiedError:
            if "already in use" not in process.log_tail(WHOLE_START):
                raise
            ports = free_ports(len(ports))
        else:
            return process
    process = start(ports)
    wait(process)
    return process
