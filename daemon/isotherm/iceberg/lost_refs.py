"""Branches and tags that a REST catalog dropped with the snapshots of an expiry, found in the versions in between.

A REST catalog cannot be asked to refuse a request where a ref came after our look, so it is looked up afterwards.
"""

from collections.abc import Collection

from pyiceberg.catalog import Catalog
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.io import FileIO
from pyiceberg.serializers import FromInputFile
from pyiceberg.table.metadata import TableMetadata

from isotherm.clients.metadata_file import METADATA_NAMES
from isotherm.contract.paths import is_plain
from isotherm.iceberg.refs import kept_until_ms
from isotherm.iceberg.stopping import IsStopped, never

APART_MS = 5 * 60_000
"""The catalog's clock said when it was kept until, and ours when it may go: more than they may be apart, for a false alarm
halts a table."""

HOPS = 100
"""Versions that are read on the way back: those of a week with a commit a minute."""


def lost_refs(
    catalog: Catalog,
    io: FileIO,
    landed: TableMetadata,
    base: str,
    going: Collection[int],
    is_stopped: IsStopped = never,
) -> tuple[str, ...] | None:
    """Branches and tags that came after our look, and that the catalog dropped with their snapshots.

    Returns None where a version in between cannot be read any more, so nobody can say.

    The versions of the table between the one that we saw and the one that took the snapshots away have them.

    Args:
        catalog: only a REST catalog drops refs.
        io: the table's files.
        landed: the table after the expiry, at once or later.
        base: the location of the metadata that the request was based on.
        going: the snapshots that were taken.
        is_stopped: asked before each version, so that whoever waits sees that it goes on.
    """
    if not isinstance(catalog, RestCatalog):
        return ()
    try:
        log = _versions_since(io, landed, base, is_stopped)
    except Exception:  # noqa: BLE001 (a version that nobody can read shows nothing)
        return None
    for location in log:
        is_stopped()
        try:
            version = _version(io, location)
        except Exception:  # noqa: BLE001 (a version that nobody can read shows nothing)
            return None
        if not {snapshot.snapshot_id for snapshot in version.snapshots} & set(going):
            break  # it came after ours
        if wanted := _wanted(version, going, landed.last_updated_ms, location):
            return wanted
    return ()


def _wanted(version: TableMetadata, going: Collection[int], at_ms: int, location: str) -> tuple[str, ...]:
    """What in one version names, or keeps, snapshots that were taken; for people."""
    named = [
        f"{name} (snapshot {ref.snapshot_id}, in {location})"
        for name, ref in version.refs.items()
        if ref.snapshot_id in going
    ]
    kept = kept_until_ms(version)
    by_branch = [one for one in going if kept.get(one, 0) > at_ms + APART_MS]
    if by_branch and not named:
        named = [f"a branch that keeps snapshot {min(by_branch)} (in {location})"]
    return tuple(named)


def _version(io: FileIO, location: str) -> TableMetadata:
    """One version of a table, read within the limits of metadata.

    A version before says where it is. So whoever may write a table's folder chooses that, and no other file is opened: what
    is not named as metadata is read whole, however large it is.

    Raises:
        LookupError: it is not named as a version of a table's metadata.
    """
    if not is_plain(location) or not location.endswith(METADATA_NAMES):
        raise LookupError(location)
    return FromInputFile.table_metadata(io.new_input(location))


def _versions_since(io: FileIO, landed: TableMetadata, base: str, is_stopped: IsStopped) -> list[str]:
    """The versions of a table after one of them, oldest first. Each version names the hundred or so before it.

    Raises:
        LookupError: it is not among the versions before, or too far back.
    """
    log = [entry.metadata_file for entry in landed.metadata_log]
    for _ in range(HOPS):
        is_stopped()
        if base in log:
            return log[log.index(base) + 1 :]
        before = [entry.metadata_file for entry in _version(io, log[0]).metadata_log]
        if not before or before[0] in log:  # whoever may write metadata may have it lead in a circle
            break
        log = before + log
    raise LookupError(base)
