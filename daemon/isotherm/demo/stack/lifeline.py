"""Become another program that dies with its parent: `python lifeline.py SIGNAL PARENT_PID PROGRAM [ARGUMENT …]`.

Run as a script between fork and exec. It sets Linux's parent-death signal and replaces itself, so that nothing
outlives a parent that was killed with SIGKILL and could not clean up. Doing the same in `preexec_fn` would run
Python in a forked, threaded process, which can deadlock. Elsewhere than on Linux it only replaces itself.

Standard library only, and nothing of ours: it runs with `-I -S`.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main() -> None:
    """Set the signal, see that the parent still lives, and become the program."""
    death_signal, parent_pid, *program = sys.argv[1:]
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, int(death_signal), 0, 0, 0)
    if os.getppid() != int(parent_pid):
        sys.exit("the parent is gone")
    # Python ignores these two, and a program that is become would inherit that.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    os.execvp(program[0], program)  # noqa: S606 (no shell is what we want)


if __name__ == "__main__":
    main()
