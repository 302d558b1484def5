"""A Hive metastore, with a time-out for each answer, and a connection for each use of it.

PyIceberg's client waits for ever, and has one connection for all threads: one of them gets the answer that another has
asked for, which is about another table.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from threading import BoundedSemaphore, local
from types import TracebackType
from typing import Any

from hive_metastore.ThriftHiveMetastore import Client
from pyiceberg.catalog import Catalog, load_catalog
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.transport.TTransport import TTransportException

CONNECTIONS = 32
"""At once, of one catalog. A few threads ask; those that were given up have theirs until a time-out."""


def hive_catalog(name: str, properties: Mapping[str, str], timeout_s: float) -> Catalog:
    """The Hive metastore that PyIceberg's properties describe."""
    catalog: Any = load_catalog(name, **properties)
    catalog._client = _Connections(lambda: catalog._create_hive_client(catalog.properties), timeout_s)  # noqa: SLF001 (there is no other way in)
    opened: Catalog = catalog
    return opened


class _Here(local):
    """The connections that this thread uses: PyIceberg enters and leaves one and the same object."""

    def __init__(self) -> None:
        self.uses: list[AbstractContextManager[Client]] = []


class _Connections:
    """Takes the place of PyIceberg's client: whoever enters it has a connection of its own until it leaves."""

    def __init__(self, make: Callable[[], Any], timeout_s: float) -> None:
        self._make = make
        self._timeout_s = timeout_s
        self._free = BoundedSemaphore(CONNECTIONS)
        self._here = _Here()

    def __enter__(self) -> Client:
        use = self._connected()
        client = use.__enter__()
        self._here.uses.append(use)
        return client

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._here.uses.pop().__exit__(kind, error, trace)

    @contextmanager
    def _connected(self) -> Iterator[Client]:
        if not self._free.acquire(timeout=self._timeout_s):
            raise TTransportException(
                TTransportException.TIMED_OUT, f"all {CONNECTIONS} connections to the metastore are in use"
            )
        try:
            connection = self._make()
            transport = connection._transport  # noqa: SLF001 (there is no other way in)
            _socket_of(transport).setTimeout(self._timeout_s * 1000)
            try:
                connection.__enter__()  # opens it, and says who we are
                yield Client(TBinaryProtocol(transport))
            finally:
                transport.close()
        finally:
            self._free.release()


def _socket_of(transport: Any) -> Any:
    # Thrift's buffer hides the socket that it wraps; the one for Kerberos does not.
    return getattr(transport, "_TBufferedTransport__trans", None) or transport.transport
