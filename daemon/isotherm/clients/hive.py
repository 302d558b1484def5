"""A Hive metastore, with a time-out for each answer, a connection for each use of it, and commits that overwrite nothing.

PyIceberg's client waits for ever, and has one connection for all threads: one of them gets the answer that another has
asked for, which is about another table.

Its commit takes a lock, reads where the table's metadata is, writes a metadata.json, and has the metastore name that file,
whatever it names by then. But a lock of which nobody speaks is gone after `hive.txn.timeout` (five minutes), and Iceberg's
Java takes none where it is told so (`engine.hive.lock-enabled=false`). So directly before the swap the lock is asked for once
more, which also renews it. And the metastore is told which file it must name still, as Iceberg's Java does it without locks.
Metastores without HIVE-26882 do not look at that: on them, the lock is all that there is.

Where either says no, nothing was swapped: that is a lost race. An answer that does not come is none, and the committer looks.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from threading import BoundedSemaphore, local
from types import TracebackType
from typing import Any

from hive_metastore.ThriftHiveMetastore import Client
from hive_metastore.ttypes import (
    CheckLockRequest,
    EnvironmentContext,
    LockRequest,
    LockResponse,
    LockState,
    MetaException,
    NoSuchLockException,
    NoSuchTxnException,
    Table,
    TxnAbortedException,
    UnlockRequest,
)
from pyiceberg.catalog import METADATA_LOCATION, PREVIOUS_METADATA_LOCATION, Catalog, load_catalog
from pyiceberg.exceptions import CommitFailedException
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.Thrift import TException
from thrift.transport.TTransport import TTransportException

CONNECTIONS = 32
"""At once, of one catalog. A few threads ask; those that were given up have theirs until a time-out."""
EXPECTED_KEY, EXPECTED_VALUE = "expected_parameter_key", "expected_parameter_value"
MODIFIED = "The table has been modified"
"""How a metastore that compares words that it names another file by now."""


def hive_catalog(name: str, properties: Mapping[str, str], timeout_s: float) -> Catalog:
    """The Hive metastore that PyIceberg's properties describe."""
    catalog: Any = load_catalog(name, **properties)
    catalog._client = _Connections(lambda: catalog._create_hive_client(catalog.properties), timeout_s)  # noqa: SLF001 (there is no other way in)
    opened: Catalog = catalog
    return opened


class Committing(Client):  # type: ignore[misc]  # Thrift has no types
    """The client on one connection, which swaps nothing but what the commit on it has read."""

    def __init__(self, protocol: Any) -> None:
        super().__init__(protocol)
        self._lock_id: int | None = None

    def lock(self, rqst: LockRequest) -> LockResponse:
        """Take a lock: what follows on this connection is a commit."""
        answer = super().lock(rqst)
        self._lock_id = answer.lockid
        return answer

    def alter_table_with_environment_context(
        self, dbname: str, tbl_name: str, new_tbl: Table, environment_context: EnvironmentContext
    ) -> None:
        """Have the metastore name other metadata, where it has what this commit began with.

        Raises:
            CommitFailedException: it has not, or somebody else may have the lock; nothing was swapped.
        """
        if self._lock_id is not None:  # else it is no commit: a table is renamed
            self._check_lock(self._lock_id, f"{dbname}.{tbl_name}")
            environment_context.properties |= {
                EXPECTED_KEY: METADATA_LOCATION,
                EXPECTED_VALUE: new_tbl.parameters[PREVIOUS_METADATA_LOCATION],
            }
        try:
            super().alter_table_with_environment_context(dbname, tbl_name, new_tbl, environment_context)
        except MetaException as err:
            if MODIFIED not in str(err.message):
                raise
            raise CommitFailedException(f"another commit was faster: {err.message}") from err
        except TTransportException as err:
            if err.type != TTransportException.TIMED_OUT:
                # It may have gone out in part, and the metastore would take what comes next for the rest of it.
                self._oprot.trans.close()
            raise

    def unlock(self, rqst: UnlockRequest) -> None:
        """Give the lock back. One that is gone, or cannot be given back and runs out by itself, says nothing of the commit."""
        with suppress(TException):
            super().unlock(rqst)

    def _check_lock(self, lock_id: int, name: str) -> None:
        try:
            state = self.check_lock(CheckLockRequest(lockid=lock_id)).state
        except (NoSuchLockException, NoSuchTxnException, TxnAbortedException) as err:
            why = f"the lock on {name} ran out while the metadata.json was written"
            raise CommitFailedException(why) from err
        if state != LockState.ACQUIRED:
            raise CommitFailedException(f"the lock on {name} is not held any more, but in state {state}")


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
                yield Committing(TBinaryProtocol(transport))
            finally:
                transport.close()
        finally:
            self._free.release()


def _socket_of(transport: Any) -> Any:
    # Thrift's buffer hides the socket that it wraps; the one for Kerberos does not.
    return getattr(transport, "_TBufferedTransport__trans", None) or transport.transport
