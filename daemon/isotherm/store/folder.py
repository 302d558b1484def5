"""The state folder: one process at a time holds it.

Two daemons on one folder would each take the other's running jobs for what a dead one has left. The lock is the
kernel's: it ends with the process, whatever ends that.
"""

import fcntl
import os
from pathlib import Path

FOLD, LEDGER = "fold.db", "ledger.db"
"""What lies in it."""


class FolderTakenError(Exception):
    """Another process holds the state folder."""


class StateFolder:
    """A held state folder; it is made where there is none, for this user alone.

    Raises:
        FolderTakenError: another process holds it.
        OSError: it cannot be made or written to.
    """

    def __init__(self, path: Path) -> None:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._lock = os.open(path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as err:
            holder = os.pread(self._lock, 20, 0).decode(errors="replace").strip() or "unknown"
            os.close(self._lock)
            raise FolderTakenError(f"{path} is held by process {holder}") from err
        os.ftruncate(self._lock, 0)
        os.pwrite(self._lock, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """Let others have it."""
        os.close(self._lock)
