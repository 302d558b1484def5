"""The process of one rewrite; `local` starts it as a script: `child.py FD PARENT`.

It gets its job through a socket and answers through the same. It is a program of its own and no child of
`multiprocessing`, which would first import whatever program the daemon is once more, at a second of CPU for each job.
"""

import contextlib
import ctypes
import os
import signal
import sys
from multiprocessing.connection import Connection

NICENESS = 10
"""Below everything that serves: a rewrite has time."""
PR_SET_PDEATHSIG = 1


class NoPandas:
    """PyArrow imports pandas where it is installed, to ask it what our values are not: half of our start."""

    @staticmethod
    def find_spec(name: str, *_: object) -> None:
        """Say that there is none."""
        if name == "pandas":
            raise ImportError("not needed here")


def die_with(parent: int) -> None:
    """End this process when the one that started it ends, by the kernel's hand."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        # It died before we asked.
        os._exit(1)


def main(descriptor: int, parent: int) -> None:
    """Do one job."""
    die_with(parent)
    # The terminal's Ctrl-C is for the parent, which then decides; SIGTERM ends us on the spot.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(OSError):
        os.nice(NICENESS)
    sys.meta_path.insert(0, NoPandas())
    with Connection(descriptor) as socket:
        job, metadata_location, io_properties = socket.recv()
        from isotherm.executors.rewrite import attempt

        socket.send(attempt(job, metadata_location, io_properties))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
