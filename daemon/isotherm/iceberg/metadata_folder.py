"""What a table's metadata folder shows against deleting what was found by listing: that the catalog does not know all.

A catalog that was restored, or copied, shows a whole table that is not what it was, and nothing in it says so. But the
versions that it lacks lie in the folder. So does the metadata of another table that lies here too.
"""

import heapq
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from pyiceberg.io import FileIO
from pyiceberg.table import Table

from isotherm.clients.listing import StoredFile, files_below
from isotherm.clients.metadata_file import Version, version_of
from isotherm.clients.storage import REQUESTS_AT_ONCE, ends_of
from isotherm.contract.paths import taken_for
from isotherm.core.deletion import FOUND, VERSION_ENDS, Cause, name_of
from isotherm.core.orphans import Strangers
from isotherm.iceberg.manifests.reachability import Stopped, last_sequence_number
from isotherm.iceberg.threads import IsStopped, Threads

MOST = 200
"""The newest versions that the table does not name, and that are looked at: two small reads each."""
LOST_RACE_MS = 600_000
"""A commit that lost against another leaves a version behind. So long after the oldest one that the table names, what it
went on from may have left the table's log."""


def oldest_named_ms(table: Table) -> int:
    """When the oldest version was made that a table names: the newest, where that is all.

    What is younger, and not named, is of another history, or of a commit that lost against another.
    """
    metadata = table.metadata
    return min((entry.timestamp_ms for entry in metadata.metadata_log), default=metadata.last_updated_ms)


def versions(table: Table) -> list[str]:
    """The versions of its metadata that a table needs: the newest, and those that it names."""
    return [table.metadata_location, *(entry.metadata_file for entry in table.metadata.metadata_log)]


@dataclass(frozen=True, slots=True)
class Beside:
    """What lies in the folder with a table's metadata beside what the table names."""

    history: str | None = None
    """Why the catalog does not know all of the table, or None where nothing shows that."""
    strangers: Strangers | None = None

    @property
    def against(self) -> Mapping[Cause, str]:
        """Why nothing that was found may go, by cause."""
        if self.history is not None:
            return dict.fromkeys(FOUND, self.history)
        return {} if self.strangers is None else {Cause.ORPHAN: self.strangers.why}


def beside(table: Table, home: str, gone: Collection[str], is_stopped: IsStopped, threads: Threads) -> Beside:
    """What the folder with the table's metadata shows against deleting what was found.

    Args:
        table: as it was just loaded.
        home: the location below which its folders are.
        gone: the uuids of tables that are known to be gone.
        is_stopped: asked between two files.
        threads: how files are read together.

    Raises:
        OSError: the store does not answer, or refuses.
        NotImplementedError: this FileIO cannot list.
        Stopped: so it was wanted.
    """
    named = {name_of(one) for location in versions(table) for one in taken_for(location)}
    folder = home.rstrip("/") + "/metadata/"
    unnamed = [
        file
        for some in files_below(table.io, folder)
        for file in some
        if "/" not in file.name and file.name.endswith(VERSION_ENDS) and file.name not in named
    ]
    newest = heapq.nlargest(MOST, unnamed, key=lambda file: file.written_at_ms)
    young_ms = oldest_named_ms(table)

    def read(file: StoredFile) -> Version | str | None:
        if is_stopped():
            raise Stopped
        try:
            return version_of(*ends_of(table.io, folder + file.name))
        except FileNotFoundError:
            return None
        except Exception as err:  # noqa: BLE001 (old ones may lie in an archive; a young one says that it cannot be read)
            is_old = file.written_at_ms + 1000 < young_ms  # some stores tell whole seconds
            return None if is_old else f"{file.name} cannot be read: {type(err).__name__}: {err}"

    history: str | None = None
    strangers: dict[str, str] = {}
    for file, version in zip(newest, threads.each(read, newest, REQUESTS_AT_ONCE), strict=True):
        if isinstance(version, str):
            history = history or version
        elif version is not None and version.uuid.lower() == str(table.metadata.table_uuid):
            why = _of_another_history(table, named, version)
            history = history or (why and f"{file.name} {why}")
        elif version is not None and version.uuid.lower() not in gone:
            strangers.setdefault(version.uuid.lower(), file.name)
    if not strangers:
        return Beside(history)
    uuid, name = next(iter(strangers.items()))
    why = (
        f"{name} is of another table, {uuid}, and so may be other files here; it is looked for in the whole catalog. "
        "Delete its versions here if it is gone for good"
    )
    return Beside(history, Strangers(frozenset(strangers), why))


def _of_another_history(table: Table, named: set[str], version: Version) -> str | None:
    """Why a version that a table does not name shows that the catalog does not know all of the table, or None."""
    last = last_sequence_number(table.metadata)
    if last is not None and version.sequence_number is not None and version.sequence_number > last:
        return f"is further than the catalog's version: its last sequence number is {version.sequence_number}, not {last}"
    if version.updated_ms > table.metadata.last_updated_ms:
        return "was made after the catalog's version"
    is_young = version.updated_ms >= oldest_named_ms(table) + LOST_RACE_MS
    if is_young and version.base is not None and name_of(version.base) not in named:
        return f"goes on from {name_of(version.base)}, which the catalog's version does not know"
    return None


def further_than(io: FileIO, location: str, table: Table) -> str | None:
    """Why a file that was found as an old version of a table is none, or None where its text shows that it is one.

    Other tables and views may lie in the same folder, a table of before may have been dropped there, and a catalog that
    was restored leaves a history that is the newer one.

    Raises:
        OSError: the store does not answer, or refuses; FileNotFoundError where the file is not there.
    """
    version = version_of(*ends_of(io, location))
    if version is None:
        return "it does not begin as a version of a table's metadata does"
    if version.uuid.lower() != str(table.metadata.table_uuid):
        return f"it is a version of another table, {version.uuid}"
    if version.updated_ms >= oldest_named_ms(table):
        return "it is younger than the oldest version that the table names"
    last = last_sequence_number(table.metadata)
    if last is None or version.sequence_number is None or version.sequence_number > last:
        return f"it may be further than the table: its last sequence number is {version.sequence_number}, not {last}"
    return None
