"""Clients of files, kept by their credentials."""

from collections import OrderedDict
from collections.abc import Callable
from threading import Lock

from pyiceberg.io import FileIO
from pyiceberg.typedef import Properties

FILE_CLIENTS = 64
"""Clients of files that are kept for tables to come: as many sets of credentials, each used for an hour or so."""


class FileClients:
    """The clients of files, one for each set of credentials rather than one for each table.

    Each holds connections of its own, and the daemon remembers thousands of tables.
    """

    def __init__(self, load: Callable[[Properties, str | None], FileIO]) -> None:
        self._load = load
        self._lock = Lock()
        self._kept: OrderedDict[object, FileIO] = OrderedDict()

    def of(self, properties: Properties, location: str | None) -> FileIO:
        """The client for these properties; it may be another table's too."""
        scheme = (location or "").partition("://")[0]
        key = (scheme, frozenset((name, str(value)) for name, value in properties.items()))
        with self._lock:
            client = self._kept.pop(key, None) or self._load(properties, location)
            self._kept[key] = client
            if len(self._kept) > FILE_CLIENTS:
                self._kept.popitem(last=False)
        return client
