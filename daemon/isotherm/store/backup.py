"""A copy of a store, taken beside a daemon that writes to it.

SQLite writes the copy within one read transaction, so it is the store of one moment, and the daemon waits for nothing.
(SQLite's online backup begins again with every write of another process; beside a daemon it never ends.)
"""

import os
import sqlite3
from pathlib import Path

from isotherm.store.database import BUSY_TIMEOUT_S, StoreError


def back_up(store: Path, copy: Path) -> int:
    """Copy a store of any version into a new file, and give the size of the copy in bytes.

    The copy has its name once it is whole and on the disk.

    Raises:
        StoreError: there is no store, it is damaged, or the copy cannot be written.
    """
    if not store.exists():
        raise StoreError(
            f"{store} is not there: no daemon has run with this state.path yet (`isotherm run` makes it)"
        )
    if copy.exists():
        raise StoreError(f"{copy} exists already; a backup overwrites nothing")
    part = copy.with_name(f"{copy.name}.part")
    try:
        part.unlink(missing_ok=True)
        os.close(os.open(part, os.O_CREAT | os.O_EXCL, 0o600))
        source = sqlite3.connect(f"{store.resolve().as_uri()}?mode=ro", uri=True, timeout=BUSY_TIMEOUT_S)
        try:
            source.execute("VACUUM INTO ?", (str(part),))
        finally:
            source.close()
        _sync(part)
        part.rename(copy)
        _sync(copy.parent)
    except (sqlite3.Error, OSError) as err:
        raise StoreError(f"{store} into {copy}: {err}") from err
    finally:
        part.unlink(missing_ok=True)
    return copy.stat().st_size


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
