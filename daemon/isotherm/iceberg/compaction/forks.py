"""The daemon's side of the program whose forks do the rewrites (`fork_program`): starts it, and knows how they end."""

import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from multiprocessing import connection

from isotherm.iceberg.compaction import fork_program
from isotherm.iceberg.compaction.fork_program import (
    ASKED,
    AWAKE,
    FEW_ARENAS,
    JOB,
    KILL,
    START,
    TERMINATE,
    TOLD,
)
from isotherm.runtime.clock import monotonic_s
from isotherm.runtime.code_on_disk import OUR_CODE

LAST_WAIT_S = 5
"""After SIGKILL. A process that hangs in the kernel, on a dead network disk, ends when that answers, and not before."""


class ForkServer:
    """The program, running. It ends when this is closed, or dropped, or with the thread that made it."""

    def __init__(self, memory_bytes: int | None) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                # -P: the folder of the script is no place to import from.
                [
                    sys.executable,
                    "-P",
                    fork_program.__file__,
                    *map(str, (theirs.fileno(), os.getpid(), memory_bytes or 0, OUR_CODE)),
                ],
                env={**os.environ, **FEW_ARENAS},
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
            )
        self._socket = ours
        self._read = b""
        self._ended: dict[int, int] = {}
        self._workers = 0
        self.is_gone = False
        self.was_given_up = False
        """Whether it was ended here because of one of its workers. The others have done nothing wrong."""

    def start(self) -> "Worker":
        """Fork a worker, which waits for jobs.

        Raises:
            OSError: the program is gone.
        """
        self._workers += 1
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                socket.send_fds(self._socket, [ASKED.pack(START, self._workers)], [theirs.fileno()])
            except BaseException:
                ours.close()
                raise
        return Worker(self, self._workers, ours)

    def is_awake(self) -> bool:
        """Whether it has shown a sign of life. Before, none of its workers has begun. Never waits."""
        while AWAKE not in self._ended and not self.is_gone and connection.wait([self._socket], 0):
            self._hear()
        return AWAKE in self._ended

    def wish(self, what: bytes, number: int) -> None:
        """Ask for a signal to a worker; nothing where all of them are gone."""
        with suppress(OSError):
            self._socket.sendall(ASKED.pack(what, number))

    def exit_code(self, number: int, timeout_s: float) -> int | None:
        """How a worker has ended, or None where it has not within this time."""
        until_s = monotonic_s() + timeout_s
        while number not in self._ended and not self.is_gone:
            left_s = max(until_s - monotonic_s(), 0)
            # Not by `select`: a daemon may have more than a thousand files open.
            if not connection.wait([self._socket], left_s):
                return None
            self._hear()
        if number in self._ended:
            return self._ended.pop(number)
        # With the program the kernel ends all its workers.
        with suppress(subprocess.TimeoutExpired):
            return self._process.wait(LAST_WAIT_S) or -signal.SIGKILL
        return -signal.SIGKILL

    def _hear(self) -> None:
        try:
            heard = self._socket.recv(4096)
        except ConnectionError:
            heard = b""
        self.is_gone = not heard
        self._read += heard
        whole = len(self._read) - len(self._read) % TOLD.size
        self._ended.update(TOLD.iter_unpack(self._read[:whole]))
        self._read = self._read[whole:]

    def close(self) -> None:
        """End the program, and with it whatever worker there is: those are told as gone."""
        self.is_gone = True
        self._socket.close()
        self._process.kill()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(LAST_WAIT_S)


class Worker:
    """A process that does one job after another. It ends when its line is closed, or dropped."""

    def __init__(self, server: ForkServer, number: int, line: socket.socket) -> None:
        self._server = server
        self._number = number
        self._exit_code: int | None = None
        self.line = line
        """Can be read when a job has been answered, or when the worker is gone."""
        self.jobs = 0
        """That it was given."""

    def do(self, task: int, result: int, shared: int) -> None:
        """Give it a job: the descriptors of a file that holds it, of one for its answer, and of memory for its `counters`.

        Raises:
            OSError: it is gone.
        """
        self.jobs += 1
        socket.send_fds(self.line, [JOB], [task, result, shared])

    def has_answered(self) -> bool:
        """Whether its job is done: the line can be read. False where it ended before."""
        with suppress(ConnectionError):
            return bool(self.line.recv(1))
        return False

    def poll(self) -> int | None:
        """Its exit code, or None while it runs."""
        if self._exit_code is None:
            self._exit_code = self._server.exit_code(self._number, 0)
        return self._exit_code

    def wait(self, timeout: float) -> int:
        """Its exit code once it has ended.

        Raises:
            TimeoutExpired: it has not, within so many seconds.
        """
        if self._exit_code is None:
            self._exit_code = self._server.exit_code(self._number, timeout)
        if self._exit_code is None:
            raise subprocess.TimeoutExpired("a rewrite", timeout)
        return self._exit_code

    @property
    def was_given_up(self) -> bool:
        """Whether its program was ended here because of another worker."""
        return self._server.was_given_up

    def is_awake(self) -> bool:
        """Whether its program can fork it already."""
        return self._server.is_awake()

    def call_off(self) -> bool:
        """Tell it that its job is not wanted. Returns whether it has not begun, and never will: nobody has to wait for it.

        The line is closed first, and what is forked later looks at that. Imports may take long on a busy machine.
        """
        with suppress(OSError):  # it is gone
            self.line.shutdown(socket.SHUT_WR)
        return not self._server.is_awake()

    def terminate(self) -> None:
        """Ask it to end."""
        self._server.wish(TERMINATE, self._number)

    def kill(self) -> None:
        """End it."""
        self._server.wish(KILL, self._number)

    def give_up(self) -> None:
        """End it with the program, and with all other workers of that: nothing was heard of it after SIGKILL.

        A program that hangs would begin no other job either, and this one when nobody wants it any more.
        """
        self._server.was_given_up = True
        self._server.close()
