"""The program in which rewrites run. `forks` starts it as a script: `fork_program.py SOCKET PARENT MEMORY CODE`.

It imports what a rewrite needs once, and forks a worker for each line that the socket brings. Importing takes several
times as long as a small job. A worker does one job after another, as they come on its line, until the daemon closes that.
It runs no job where it is other code than the daemon (`code_on_disk`), which the daemon then says of each of them.

This program does nothing else and has no threads, so no worker inherits a lock that a thread holds.

It is not a fork server of `multiprocessing`. Such a server would import the daemon's main module again in each job. It
keeps a third process, and cannot be ended while the daemon lives.
"""

import contextlib
import ctypes
import gc
import os
import pickle
import signal
import socket
import struct
import sys
from multiprocessing.connection import wait
from pathlib import Path
from typing import Final, NoReturn

import isotherm
from isotherm.iceberg.compaction.memory_limit import limit_memory
from isotherm.runtime.clean_stream import clean_errors
from isotherm.runtime.code_on_disk import code_on_disk
from isotherm.runtime.no_pandas import without_pandas

ASKED: Final = struct.Struct("=cI")
"""What to do with which worker: `START`, which brings its end of a line, or a signal."""
TOLD: Final = struct.Struct("=Ii")
"""Which worker has ended, and how: its exit code, negative where a signal ended it."""
NO_THREADS: Final = {"JE_ARROW_MALLOC_CONF": "background_thread:false", "OPENBLAS_NUM_THREADS": "1"}
"""Without these, PyArrow's jemalloc and NumPy's OpenBLAS start threads when they are imported."""
FEW_ARENAS: Final = {"MALLOC_ARENA_MAX": "2"}
"""For the environment in which this program is started: without it each thread that fetches a file takes 64 MiB of address
space, of which a small `memory_bytes` has none to give."""
AWAKE = 0
"""The number in what it tells first: no worker's. It has imported everything, and forks from now on."""
START, TERMINATE, KILL = b"s", b"t", b"k"
JOB, DONE = b"j", b"d"
"""On a line: a job, which brings three descriptors, of a file that holds it, of one for its answer, and of the memory in which
it says how far it is; the answer is there."""

OTHER_CODE: Final = 76
"""How it ends where it is other code than the daemon; sysexits.h EX_PROTOCOL. Here, and not with the codes that shells see: this
script is the daemon's own file also where all else is imported from another copy."""

NICENESS = 10
"""A rewrite is never urgent, so every process that serves requests gets the CPU first."""
PR_SET_PDEATHSIG = 1
OOM_SCORE = 900
"""When memory is short, the kernel kills a rewrite first, not the daemon or a service beside it."""


def die_with(parent: int) -> None:
    """Have the kernel kill this process when the one that started it ends."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        # It died before we asked.
        os._exit(1)


def take_little(memory_bytes: int) -> None:
    """Take the lowest priority on this machine. With `memory_bytes` 0 the memory has no limit."""
    with contextlib.suppress(OSError):
        os.nice(NICENESS)
    with contextlib.suppress(OSError):
        score = os.open("/proc/self/oom_score_adj", os.O_WRONLY)
        os.write(score, str(OOM_SCORE).encode())
        os.close(score)
    if memory_bytes:
        limit_memory(memory_bytes)


def warm_up() -> None:
    """Import all that a job needs, and start no thread."""
    os.environ.update(NO_THREADS)
    without_pandas()
    gc.disable()  # nothing of what is imported is garbage; the collector would take a tenth of the time
    import isotherm.iceberg.compaction.rewrite  # noqa: F401

    gc.freeze()  # otherwise the collector writes to the pages that all workers share, and each copies them
    gc.enable()


def do(task: int, result: int, shared: int) -> None:
    """Do one job, and write down how far it is."""
    from isotherm.iceberg.compaction.counters import Counters
    from isotherm.iceberg.compaction.rewrite import attempt

    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")  # the most memory of this job, and not of those before
    with os.fdopen(task, "rb") as file:
        job, description, io_properties = pickle.load(file)  # noqa: S301 (from our own parent)
    counters = Counters(shared)
    os.close(shared)
    with os.fdopen(result, "wb") as file, contextlib.closing(counters):
        pickle.dump(attempt(job, description, io_properties, counters), file)


def work(line: socket.socket) -> None:
    """Do one job after another until the daemon closes the line, also before one that lies there."""
    with line, contextlib.suppress(ConnectionError):
        while True:
            message, descriptors, _, _ = socket.recv_fds(line, len(JOB), 3)
            if message != JOB or is_closed(line):
                return
            do(*descriptors)
            line.sendall(DONE)


def is_closed(line: socket.socket) -> bool:
    """Whether the daemon has closed a line: what it asked for there is not wanted any more."""
    with contextlib.suppress(BlockingIOError):
        return not line.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    return False


class Forks:
    """The workers, each a fork of this process."""

    def __init__(self, asked: socket.socket, memory_bytes: int) -> None:
        self._asked = asked
        self._memory_bytes = memory_bytes
        self._running: dict[int, int] = {}
        """The number of each worker by its process."""
        self._woken, self._wakes = os.pipe()
        os.set_blocking(self._wakes, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wakes, warn_on_full_buffer=False)

    def begin(self) -> None:
        """Say that it is awake."""
        self._tell(AWAKE, 0)

    def turn(self) -> bool:
        """Wait for a request or for the end of a worker. Returns False once the daemon has closed the socket."""
        ready = wait([self._asked, self._woken])
        if self._woken in ready:
            os.read(self._woken, 4096)
        self._reap()
        return self._asked not in ready or self._ask()

    def _ask(self) -> bool:
        message, descriptors, _, _ = socket.recv_fds(self._asked, ASKED.size, 1)
        if len(message) != ASKED.size:
            return False
        wish, number = ASKED.unpack(message)
        if wish == START:
            self._start(number, descriptors)
        else:
            # A process that nobody has waited for keeps its number, so this hits no other process.
            for process in [process for process, one in self._running.items() if one == number]:
                os.kill(process, signal.SIGKILL if wish == KILL else signal.SIGTERM)
        return True

    def _start(self, number: int, descriptors: list[int]) -> None:
        parent = os.getpid()
        try:
            process = os.fork()
        except OSError:
            # No memory, or too many processes. Others run on.
            sys.excepthook(*sys.exc_info())
            self._tell(number, 1)
        else:
            if not process:
                self._be_a_worker(parent, descriptors)
            self._running[process] = number
        for one in descriptors:
            os.close(one)

    def _be_a_worker(self, parent: int, descriptors: list[int]) -> NoReturn:
        code = 1
        try:
            die_with(parent)
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            self._asked.close()
            os.close(self._woken)
            os.close(self._wakes)
            take_little(self._memory_bytes)
            work(socket.socket(fileno=descriptors[0]))
            code = 0
        except Exception:  # noqa: BLE001 (told as an uncaught one would be)
            sys.excepthook(*sys.exc_info())
        finally:
            # The parent's exit handlers must not run in this process.
            os._exit(code)

    def _tell(self, number: int, code: int) -> None:
        self._asked.sendall(TOLD.pack(number, code))

    def _reap(self) -> None:
        while self._running:
            process, status = os.waitpid(-1, os.WNOHANG)
            if not process:
                return
            self._tell(self._running.pop(process), os.waitstatus_to_exitcode(status))


def main(asked: int, parent: int, memory_bytes: int, code: str) -> None:
    """Fork for each line until the daemon closes the socket. Then the kernel ends the jobs that run.

    With other code than the daemon's it ends at once.
    """
    die_with(parent)
    # The terminal's Ctrl-C is for the parent, which then decides; SIGTERM ends us on the spot.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    clean_errors()
    warm_up()
    if code_on_disk() != code:  # asked last: an upgrade may have come in the middle of these imports
        where = isotherm.__path__[0]
        sys.stderr.write(f"isotherm in {where} is other code than the daemon's; no rewrite runs\n")
        sys.exit(OTHER_CODE)
    forks = Forks(socket.socket(fileno=asked), memory_bytes)
    with contextlib.suppress(ConnectionError):
        forks.begin()
        while forks.turn():
            pass
    os._exit(0)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
