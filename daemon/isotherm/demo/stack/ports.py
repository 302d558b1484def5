"""Free ports, and starting again when one was taken in between."""

import socket
from collections.abc import Callable
from contextlib import suppress

from isotherm.demo.stack.errors import StackError
from isotherm.demo.stack.process import Process, ProcessDiedError

HOST = "127.0.0.1"
ATTEMPTS = 4
"""A port is lost to somebody else once in thousands of starts; four losses in a row are no accident."""
TAKEN = b"already in use"
"""How the C library, and so PostgreSQL and the JVM, call the error EADDRINUSE."""


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
    is_ready: Callable[[], bool],
    within_s: float,
) -> Process:
    """Start a server on these ports and wait until it is ready; again with others if one was taken meanwhile.

    What the server says counts, not its end: Kafka Connect takes half a minute to die of a taken port.

    Raises:
        StackError: it does not start for another reason, or the ports are taken time and again.
    """
    for _ in range(ATTEMPTS):
        process = start(ports)
        try:
            process.wait_until(lambda: process.has_logged(TAKEN) or is_ready(), within_s, "answers")  # noqa: B023
        except ProcessDiedError:
            if not process.has_logged(TAKEN):
                raise
        if not process.has_logged(TAKEN):
            return process
        process.stop(within_s=1)
        ports = free_ports(len(ports))
    raise StackError(f"{process.name} lost its ports to somebody else, {ATTEMPTS} times in a row")
