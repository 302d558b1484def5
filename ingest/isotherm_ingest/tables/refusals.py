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

CODE = "write.location-provider.impl"
WAIT_MS = 60_000
"""The longest pause between two tries. No property but `commit.retry.num-retries` of ten or more makes Iceberg's own longer
than a minute, and then a minute is its limit."""
LOOKS = 30
"""How often Iceberg may look whether a commit has landed of which nobody knows; its default is 3."""
PAUSES = {"commit.retry": (4, 100, WAIT_MS), "commit.status-check": (3, 1000, WAIT_MS)}
"""By the beginning of properties, Iceberg's own number of tries, its first pause, which doubles, and its longest."""
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
    why = _of_files(properties) or _of_pauses(properties) or _of_places(now, location, properties)
    return why and f"{now.name} {why}"


def _of_files(properties: Mapping[str, str]) -> str:
    kind = properties.get("write.format.default", "parquet")
    if kind.lower() != "parquet":
        return f"is to have files in {kind}: ingest writes Parquet (`write.format.default`)"
    if "encryption.key-id" in properties:
        return "is to have encrypted files (`encryption.key-id`), which ingest does not write"
    if CODE in properties:
        return f"names code that is to run here (`{CODE}`): ingest runs none of a table's, so unset it"
    return ""


def _of_pauses(properties: Mapping[str, str]) -> str:
    """All tables of a batch wait for a commit. How long it is tried in all is bounded where it is made."""
    for begin, own in PAUSES.items():
        names = [f"{begin}.{name}" for name in ("num-retries", "min-wait-ms", "max-wait-ms")]
        try:
            tries, first_ms, most_ms = (
                int(properties.get(name, default)) for name, default in zip(names, own, strict=True)
            )
        except ValueError:
            return f"has no number where one is due ({', '.join(names)})"
        longest_ms = min(first_ms * 2 ** min(max(tries - 1, 0), 60), most_ms)
        if longest_ms > WAIT_MS:
            return (
                f"has a commit wait up to {longest_ms // 1000} s before it is tried again, and all tables with it "
                f"({', '.join(names)}): {WAIT_MS // 1000} s are the most"
            )
        if tries > LOOKS and begin == "commit.status-check":
            return f"has a lost commit looked for {tries} times ({begin}.num-retries): {LOOKS} are the most"
    return ""


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
