"""Which clients of files hold connections to their stores: those that were used last, and no others.

A catalog may lend each of its tables keys of its own. Then each table has a client, and thousands are remembered. A client's
connections stay open for as long as it is there, also those that the store has closed long ago.
"""

from collections.abc import MutableMapping
from threading import Lock
from weakref import WeakKeyDictionary

from pyiceberg.io.pyarrow import PyArrowFileIO

MOST_CONNECTED = 64
"""Each has two or three connections, and up to 48 after a large scan. Some systems allow a process 4,096 open files."""


class Connected:
    """The clients of files that hold connections."""

    def __init__(self, most: int = MOST_CONNECTED) -> None:
        self._most = most
        self._lock = Lock()
        self._used: MutableMapping[PyArrowFileIO, None] = WeakKeyDictionary()
        """In the order in which they were used."""

    def use(self, files: PyArrowFileIO) -> None:
        """Note that a client is used. The one that was used longest ago lets go, and connects again when it is asked.

        Files that are being read through it hold what they need.
        """
        with self._lock:
            self._used.pop(files, None)
            self._used[files] = None
            oldest = next(iter(self._used)) if len(self._used) > self._most else None
            if oldest is not None:
                del self._used[oldest]
        if oldest is not None:
            oldest.fs_by_scheme.cache_clear()  # type: ignore[attr-defined]


CONNECTED = Connected()
"""Of this process."""
