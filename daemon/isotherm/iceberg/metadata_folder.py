"""What a table's metadata folder shows against deleting what was found by listing: that the catalog does not know all.

A catalog that was restored, or copied, shows a whole table that is not what it was, and nothing in it says so. But the
versions that it lacks lie in the folder. So does the metadata of another table that lies here too.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from pyiceberg.io import FileIO
from pyiceberg.table import Table

from isotherm.clients.listing import StoredFile, files_below
from isotherm.clients.metadata_ends import ends_of
from isotherm.clients.metadata_file import Version, version_of
from isotherm.contract.paths import is_plain, normalised, taken_for
from isotherm.contract.summary import committed_at_of
from isotherm.core.deletion import FOUND, VERSION_ENDS, Cause, name_of
from isotherm.core.orphan_findings import Strangers
from isotherm.iceberg.manifests.reachability import last_sequence_number
from isotherm.iceberg.snapshots import summary_of
from isotherm.iceberg.stopping import IsStopped, Stopped
from isotherm.iceberg.threads import Threads

PAUSES_S = (0.5, 1.5)
"""Between the looks at a version that the catalog does not know: a commit writes it a moment before it is in force."""
LEFT_BEHIND = "delete it if a commit that failed has left it"
AT_ONCE = 8
"""Versions that are read together: a packed one is held whole."""
NAMED = 9
"""Versions beside the first that are named, where several speak against it: each failed commit leaves one."""
MOST = 200
"""The newest versions that the table does not name, and that are looked at: two small reads each."""
OLDEST = 100
"""And so many of the oldest: those of a table that was here before."""
LIVES_MS = 7 * 86_400_000
"""A table that was written within so long before what was found is old enough lives, though this catalog has it not:
another one may."""
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
        if self.strangers is None:
            return {}
        # What lies in the quarantine of a table that was here before is that one's, and it may need it.
        return dict.fromkeys((Cause.ORPHAN, Cause.QUARANTINED), self.strangers.why)


def beside(
    table: Table,
    home: str,
    gone: Collection[str],
    before_ms: int,
    is_stopped: IsStopped,
    threads: Threads,
) -> Beside:
    """What lies in the folders with the table's metadata, and speaks against deleting what was found.

    The folders are listed, and then the table is loaded again: what was committed meanwhile is in order. What is about to be
    committed is given a moment.

    Args:
        table: as it was loaded.
        home: the location below which its folders are.
        gone: the uuids of tables that are known to be gone.
        before_ms: what was found was written before this.
        is_stopped: asked between two files.
        threads: how files are read together.

    Raises:
        OSError: the store does not answer, or refuses.
        NotImplementedError: this FileIO cannot list.
        Stopped: so it was wanted.
    """
    read = list(_unnamed(table, home, is_stopped, threads))
    uuid = str(table.metadata.table_uuid)
    mine = [one for one in read if isinstance(one.said, str) or one.said.uuid == uuid]
    history: str | None = None
    for pause_s in (0.0, *PAUSES_S):
        if not mine:
            break
        threads.pause(pause_s, is_stopped)
        table = table.catalog.load_table(table.name())
        named = _named(table)
        whys = [(one, _of_another_history(table, named, one.said)) for one in mine if one.name not in named]
        against = [(one, why) for one, why in whys if why is not None]
        mine, history = [one for one, _ in against], _told(against)
    strangers: dict[str, str] = {}
    for one in read:
        # Elsewhere tables may share a folder; at home they do not.
        if not one.is_at_home or isinstance(one.said, str) or one.said.uuid == uuid:
            continue
        if one.said.uuid not in gone or one.said.updated_ms >= before_ms - LIVES_MS:
            strangers.setdefault(one.said.uuid, one.name)
    if not strangers:
        return Beside(history)
    uuid, name = next(iter(strangers.items()))
    why = (
        f"{name} is of another table, {uuid}, and so may be other files here; it is looked for in the whole catalog. "
        "Delete its versions here if it is gone for good"
    )
    return Beside(history, Strangers(frozenset(strangers), why))


class _Unnamed(NamedTuple):
    """A version that the table does not name."""

    name: str
    said: Version | str
    """What it says; of one that cannot be read, why."""
    is_at_home: bool


def _told(against: Sequence[tuple[_Unnamed, str]]) -> str | None:
    """The newest version that speaks against it, and why, with the names of the others: a person looks at all of them at once.

    None where there is none.
    """
    if not against:
        return None
    (first, why), *others = against
    names = ", ".join(one.name for one, _ in others[:NAMED])
    more = f" and {len(others) - NAMED} more" if len(others) > NAMED else ""
    return f"{first.name} {why}" + (f". So it is with {names}{more}" if others else "")


def _named(table: Table) -> set[str]:
    """The names of the versions that a table needs."""
    return {name_of(one) for location in versions(table) for one in taken_for(location)}


def _unnamed(table: Table, home: str, is_stopped: IsStopped, threads: Threads) -> Iterator[_Unnamed]:
    """The newest and the oldest versions in a table's folders that it does not name."""
    named, young_ms = _named(table), oldest_named_ms(table)
    at_home = f"{home.rstrip('/')}/metadata/"
    unnamed = _both_ends(_listed(table, at_home, named, is_stopped))
    if (elsewhere := _elsewhere(table, at_home)) is not None:
        try:
            unnamed += _both_ends(_listed(table, elsewhere, named, is_stopped))
        except OSError as err:
            yield _Unnamed(elsewhere, f"cannot be listed: {err}", is_at_home=False)
    looked_at = _both_ends(unnamed)

    def read(one: tuple[str, StoredFile]) -> Version | str | None:
        if is_stopped():
            raise Stopped
        folder, file = one
        try:
            version = version_of(*ends_of(table.io, folder + file.name))
            return None if version is None else version._replace(uuid=version.uuid.lower())
        except FileNotFoundError:
            return None
        except Exception as err:  # noqa: BLE001 (old ones may lie in an archive; a young one says that it cannot be read)
            is_old = file.written_at_ms + 1000 < young_ms  # some stores tell whole seconds
            return None if is_old else f"cannot be read: {type(err).__name__}: {err}"

    for (folder, file), said in zip(looked_at, threads.each(read, looked_at, AT_ONCE), strict=True):
        if said is not None:
            yield _Unnamed(file.name, said, folder == at_home)


def _both_ends(versions: Iterable[tuple[str, StoredFile]]) -> list[tuple[str, StoredFile]]:
    """The newest and the oldest of some versions, newest first. There may be a million; few more than those are held."""
    unnamed: list[tuple[str, StoredFile]] = []
    versions = iter(versions)
    while some := list(islice(versions, MOST + OLDEST)):
        unnamed = sorted(unnamed + some, key=lambda one: one[1].written_at_ms, reverse=True)
        unnamed = unnamed[:MOST] + unnamed[max(len(unnamed) - OLDEST, MOST) :]
    return unnamed


def _listed(
    table: Table, folder: str, named: Collection[str], is_stopped: IsStopped
) -> Iterator[tuple[str, StoredFile]]:
    """The versions right in a folder that a table does not name."""
    for some in files_below(table.io, folder):
        if is_stopped():
            raise Stopped
        for file in some:
            is_version = "/" not in file.name and file.name.endswith(VERSION_ENDS)
            if is_version and file.name not in named and _is_text(file.name):
                yield folder, file


def _is_text(name: str) -> bool:
    """Whether a name is UTF-8. No catalog and no metadata can name a file that has another one, nor can we open it."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _elsewhere(table: Table, at_home: str) -> str | None:
    """The folder of a table's newest version, where that is another one of the same store. None where it is not.

    Its owner chooses it (`write.metadata.path`): never the root of a store, and no disk of this machine where the table is
    not on it.
    """
    folder = table.metadata_location.rpartition("/")[0] + "/"
    scheme, _, place = folder.partition("://")
    store, _, below = place.partition("/")
    is_there = at_home.startswith(f"{scheme}://{store}/") and below.count("/") > 1
    is_other = is_plain(table.metadata_location) and normalised(folder) != normalised(at_home)
    return folder if is_there and is_other else None


def _updated_ms(table: Table) -> int:
    """When the catalog's version was made: what is ours is stamped back."""
    head, updated_ms = table.current_snapshot(), table.metadata.last_updated_ms
    return (
        updated_ms if head is None else max(updated_ms, committed_at_of(summary_of(head), head.timestamp_ms))
    )


def _of_another_history(table: Table, named: set[str], version: Version | str) -> str | None:
    """Why a version that a table does not name shows that the catalog does not know all of the table, or None."""
    if isinstance(version, str):
        return version
    last = last_sequence_number(table.metadata)
    if last is not None and version.sequence_number is not None and version.sequence_number > last:
        return (
            f"is further than the catalog's version: its last sequence number is {version.sequence_number}, not {last}; "
            f"{LEFT_BEHIND}"
        )
    if version.updated_ms > _updated_ms(table):
        return f"was made after the catalog's version; {LEFT_BEHIND}"
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
