"""What a table's owner may not choose where ingest writes: code, folders of this machine, other hosts, and a long wait.

Properties of a table and its location reach Java's library, in the JVM in which all tables are written. They are looked
at before anything is asked of it, again as Java has loaded the table, and at each try to commit.
"""

from collections import deque
from collections.abc import Mapping

from pyiceberg.io import ADLS_ACCOUNT_HOST, ADLS_ACCOUNT_NAME, WAREHOUSE

from isotherm.clients.name_nodes import ForeignHostError, name_node
from isotherm.clients.name_nodes import check as check_name_node
from isotherm.clients.storage import RetryingFileIO
from isotherm.contract.paths import misplaced, normalised, written_under
from isotherm_ingest.failures import TableRefused
from isotherm_ingest.tables.lake import TableNow
from isotherm_ingest.tables.refused_properties import refused_property

STORES = ("", "file", "s3", "gs", "abfs", "hdfs", "viewfs")
"""Schemes that the workers write. Hadoop knows others, whose addresses are hosts: `webhdfs`, `ftp`, `http`."""


def must_be_written(now: TableNow) -> None:
    """Raises TableRefused where a table is to be written as nobody writes here."""
    deque(now.ancestry(), maxlen=0)  # raises where it has no end: Iceberg walks it, too, while it commits
    if why := refusal(now, now.table.metadata.location, now.properties):
        raise TableRefused(why)


def refusal(now: TableNow, location: str, properties: Mapping[str, str]) -> str:
    """Why a table is not written that says so of itself, or nothing where it is.

    Args:
        now: the table as it was looked at, whose owner may have changed it since.
        location: what it says.
        properties: its own.
    """
    why = refused_property(properties) or _of_places(now, location, properties)
    return why and f"{now.name} {why}"


def _of_places(now: TableNow, location: str, properties: Mapping[str, str]) -> str:
    """As the daemon judges it. A table without snapshots is where the catalog has its metadata."""
    head = None if now.head is None else now.snapshots.get(now.head)
    lies = now.table.metadata_location if head is None else head.manifest_list
    if why := misplaced(location, properties, lies):
        return f"is not written: {why}"
    for name, place in written_under(location, properties).items():
        if why := _elsewhere(now, place):
            return f"is not written: its {name} {place!r} {why}"
    return ""


def _elsewhere(now: TableNow, place: str) -> str:
    """Why nobody connects to where a place is. Buckets are no hosts, so a table may name any."""
    io = now.table.io
    own = now.table.metadata_location
    scheme = _scheme(place)
    if scheme not in {*STORES, _scheme(own)}:
        return f"is in a store that ingest does not write ({scheme})"
    if (host := name_node(place)) is not None:
        try:
            check_name_node(host, io.properties, io.name_nodes if isinstance(io, RetryingFileIO) else ())
        except ForeignHostError as err:
            return f"is on another host: {err}"
    account = _account(place)
    if account not in {"", *_accounts(now)}:
        return (
            f"is on another host: {account} is neither where the catalog has the table, nor in catalog.properties "
            f"({ADLS_ACCOUNT_HOST}, {ADLS_ACCOUNT_NAME}, {WAREHOUSE})"
        )
    return ""


def _scheme(place: str) -> str:
    """As locations are compared, so that several names of one store are one."""
    return normalised(place).partition(":")[0] if not normalised(place).startswith("/") else ""


def _account(place: str) -> str:
    """The host of Azure in a location, or nothing where it names none."""
    scheme, _, rest = normalised(place).partition("://")
    return rest.partition("/")[0].rpartition("@")[2] if scheme == "abfs" else ""


def _accounts(now: TableNow) -> set[str]:
    """The hosts of Azure that the operator or the catalog named."""
    said = now.table.io.properties
    name = said.get(ADLS_ACCOUNT_NAME)
    named = {f"{name}.dfs.core.windows.net"} if name else set()
    places = {_account(now.table.metadata_location), _account(str(said.get(WAREHOUSE, "")))}
    return {str(said.get(ADLS_ACCOUNT_HOST, "")).lower(), *named, *places}
