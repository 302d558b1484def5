"""The process of one rewrite; `executor` starts it as a script: `child.py TASK RESULT DONE PARENT MEMORY`.

The first three are descriptors: a file with its job, a file for its answer, and a pipe that says that the answer is
there. It is a program of its own and no child of
`multiprocessing`, which would first import whatever program the daemon is once more, at a second of CPU for each job.
"""

import contextlib
import ctypes
import os
import pickle
import resource
import signal
import sys
from multiprocessing.connection import Connection

from isotherm.runtime.no_pandas import without_pandas

NICENESS = 10
"""Below everything that serves: a rewrite has time."""
PR_SET_PDEATHSIG = 1
OOM_SCORE = 900
"""Where memory is short the kernel takes a rewrite, and neither the daemon nor what serves beside it."""
RESERVED_BYTES = 2 * 1024**3
"""Address space that Python and its libraries take and never fill."""


def die_with(parent: int) -> None:
    """End this process when the one that started it ends, by the kernel's hand."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        # It died before we asked.
        os._exit(1)


def take_little(memory_bytes: int) -> None:
    """Stand back behind everything else on this machine. With `memory_bytes` 0 the memory has no limit."""
    with contextlib.suppress(OSError):
        os.nice(NICENESS)
    with contextlib.suppress(OSError):
        score = os.open("/proc/self/oom_score_adj", os.O_WRONLY)
        os.write(score, str(OOM_SCORE).encode())
        os.close(score)
    if memory_bytes:
        # A limit of the machine's own may be lower: it stays.
        limit = memory_bytes + RESERVED_BYTES
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def main(task: int, result: int, done: int, parent: int, memory_bytes: int) -> None:
    """Do one job."""
    die_with(parent)
    # The terminal's Ctrl-C is for the parent, which then decides; SIGTERM ends us on the spot.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    take_little(memory_bytes)
    without_pandas()
    with os.fdopen(task, "rb") as file:
        job, description, io_properties = pickle.load(file)  # noqa: S301 (from our own parent)
    from isotherm.iceberg.compaction.rewrite import attempt

    with os.fdopen(result, "wb") as file:
        pickle.dump(attempt(job, description, io_properties), file)
    with Connection(done, readable=False) as pipe:
        pipe.send_bytes(b"done")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
