"""The search for files in a table's folders that nothing needs. Lists and reads; decides nothing for good, and deletes nothing.

The folders are listed first, the table is loaded after that, and what it reaches is read: so a file that came meanwhile is
not among those that were listed. Then the folders are listed once more, and what was there both times, is old enough and
was not reached is found. Files are compared by their names alone. Names of data files and of manifests are unique, so
this loses little, and no alias of a folder or a store makes orphans of all that lies there. Between the two listings a name
is kept as a number, so a million files are some 60 MB. Of what is found the oldest are held, and the rest is counted.
"""

from collections.abc import Callable, Container, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace

from pyiceberg.io import FileIO
from pyiceberg.table import Table

from isotherm.clients.listing import StoredFile, files_below
from isotherm.clients.manifests.avro import UnreadableError
from isotherm.clients.moving import size_of
from isotherm.clients.storage import REQUESTS_AT_ONCE
from isotherm.contract.identity import name_from
from isotherm.contract.paths import deepest, folder, is_plain, taken_for
from isotherm.core.deletion import METADATA_ENDS, Cause, held_by, is_gc_enabled, name_of
from isotherm.core.model.refusals import Reason, Refusal
from isotherm.core.orphan_findings import (
    Found,
    Orphan,
    Refused,
    Unneeded,
    is_old_version_by_name,
    is_orphan_by_name,
)
from isotherm.core.quarantine import origin_of
from isotherm.iceberg import metadata_folder
from isotherm.iceberg.by_name import ByName
from isotherm.iceberg.fingerprints import Numbered
from isotherm.iceberg.manifests.reachability import last_sequence_number, reaching
from isotherm.iceberg.metadata_folder import oldest_named_ms, versions
from isotherm.iceberg.misplaced import misplaced_table
from isotherm.iceberg.named_files import NamedFiles
from isotherm.iceberg.quarantine import Inside
from isotherm.iceberg.stopping import IsStopped, Stopped, never
from isotherm.iceberg.threads import THREADS, Threads
from isotherm.service.ports import Search

_SIGNS = ("/_delta_log/", "/.hoodie/", "/_hudi_metadata/")
"""By which other formats' tables are known; the folder in which one lies is that table's."""
ASKED_EVERY = 1000
"""Files, of those that a store lists together, after which it is asked whether to stop: it may list a million."""
GC_DISABLED = "the table says gc.enabled=false: its files may belong to another one"
MOST = 5_000_000
"""Files of a table that are compared, with 300 MB of memory."""


def find(
    table: Table, wanted: Search, is_stopped: IsStopped = never, threads: Threads = THREADS
) -> Found | Refused:
    """Find what nothing needs in a table's folders. Where nothing may be looked for there, list its quarantine alone.

    Args:
        table: as it was just loaded; it is loaded again once its folders are listed.
        wanted: what is looked for, and where.
        is_stopped: asked between two files.
        threads: how files are read together.

    Raises:
        Stopped: so it was wanted.
    """
    inside = Inside(wanted.quarantined)
    result: Found | Refused
    try:
        if wanted.cause in {Cause.ORPHAN, Cause.QUARANTINED}:
            # Who lets nobody list it is told so; what is in the table's own two folders is found all the same.
            inside.look(table.io, wanted.home, is_stopped)
        result = _found(table, wanted, inside, is_stopped, threads)
    except (OSError, UnreadableError) as err:
        result = Refused(Refusal(Reason.STORAGE, f"what is needed cannot be read: {err}"))
    except NotImplementedError as err:
        result = Refused(Refusal(Reason.UNSUPPORTED, str(err)))
    if isinstance(result, Found):
        return result
    # Where another table is in the place of this one, what lies there may be that one's.
    is_ours = inside.is_listed and result.refusal.reason is not Reason.GONE
    return replace(result, quarantine=tuple(inside.files or ()) if is_ours else None)


def _found(
    table: Table, wanted: Search, inside: Inside, is_stopped: IsStopped, threads: Threads
) -> Found | Refused:
    if wanted.cause is Cause.QUARANTINED:
        return Refused(Refusal(Reason.GC_DISABLED, GC_DISABLED))
    unreached, others = Numbered(), Others(wanted.home)
    for _, file in _listed(table.io, wanted, is_stopped, others.add):
        unreached.add_all([name_of(file.name)])
        if len(unreached) > MOST:
            return Refused(Refusal(Reason.UNSUPPORTED, f"its folders hold more than {MOST} files"))
    now = table.catalog.load_table(table.name())
    if (against := _against(now, wanted, is_stopped, threads)) is not None:
        return against
    needed_again, named = set[str](), NamedFiles()
    for some in _needed(now, wanted, Either(unreached, inside.names), is_stopped, threads):
        locations = list(some)
        unreached.discard_all([name_of(one) for one in locations])
        for location in locations:
            if (name := name_of(location)) in inside.names:
                needed_again.add(name)
                named.add(location)
    found = _unreached(now, wanted, unreached, others, is_stopped)
    if wanted.cause is not Cause.ORPHAN:
        return found
    inside.add_needed(now.io, wanted.home, needed_again, is_stopped)
    missed = _missed(now.io, wanted.home, inside.files or (), needed_again, named, threads)
    return replace(
        found,
        quarantine=None if inside.files is None else tuple(inside.files),
        is_whole=inside.is_whole,
        why_not=inside.why_not,
        needed_again=frozenset(needed_again),
        missed=missed,
        claimed={place: other for place in missed if (other := _claimed(place, wanted)) is not None},
    )


def _missed(
    io: FileIO,
    home: str,
    files: Iterable[Orphan],
    names: Container[str],
    named: NamedFiles,
    threads: Threads,
) -> frozenset[str]:
    """Of files in quarantine that have one of these names, those where none lies where they were, and the table may mean them.

    What it names in its quarantine stays there.
    """

    def is_missed(place: str) -> bool:
        origin = origin_of(place, home) or place
        with suppress(Exception):
            is_there = named.has(place) or size_of(io, origin) is not None
            return not is_there and not named.are_elsewhere(origin, lambda one: size_of(io, one))
        return False

    places = [one.path for one in files if name_of(one.path) in names]
    answers = zip(places, threads.each(is_missed, places, REQUESTS_AT_ONCE), strict=True)
    return frozenset(place for place, missed in answers if missed)


def _claimed(place: str, wanted: Search) -> str | None:
    """The folder of another table that keeps a file in quarantine, or None."""
    both = (place, origin_of(place, wanted.home) or place)
    return next(filter(None, (held_by(one, wanted.neighbours, is_found=True) for one in both)), None)


def _unreached(
    now: Table, wanted: Search, unreached: Numbered, others: "Others", is_stopped: IsStopped
) -> Found:
    """List once more, and take what is old enough of the files whose names nothing has reached.

    Args:
        now: the table as it was loaded after the first listing.
        wanted: what is looked for.
        unreached: the names that nothing has reached; of versions, each is taken out once it has been counted.
        others: what is somebody else's.
        is_stopped: asked between two files.
    """
    is_of_versions = wanted.cause is Cause.OLD_VERSION
    before_ms = min(wanted.before_ms, oldest_named_ms(now)) if is_of_versions else wanted.before_ms
    listed = listed_bytes = young = 0
    unneeded, held = Unneeded(), set[str]()
    for below, file in _listed(now.io, wanted, is_stopped, others.add):
        listed, listed_bytes = listed + 1, listed_bytes + file.size_bytes
        if (name := name_of(file.name)) not in unreached:
            continue
        if is_of_versions:
            # All lie in one folder. One that is listed twice must not count twice among the newest, which stay.
            unreached.discard_all([name])
        path = below + file.name
        if (holder := held_by(path, wanted.neighbours, is_found=True)) is not None:
            held.add(holder)
        elif is_plain(path) and path not in others:
            if file.written_at_ms < before_ms:
                unneeded.add(Orphan(path, file.size_bytes, file.written_at_ms))
            else:
                young += 1
    # Whose a folder is may have shown itself only by what came into it since the first listing.
    unneeded.leave_out(others)
    keep = max(wanted.keep_last - len(now.metadata.metadata_log) - young, 0) if is_of_versions else 0
    files, size_bytes, oldest = unneeded.without_newest(keep)
    return Found(listed, listed_bytes, files, size_bytes, oldest, frozenset(held))


def _against(now: Table, wanted: Search, is_stopped: IsStopped, threads: Threads) -> Refused | None:
    """Why nothing in the folders of a table is looked at."""
    if (refusal := _against_table(now, wanted)) is not None:
        return Refused(refusal)
    beside = metadata_folder.beside(now, wanted.home, wanted.gone, wanted.before_ms, is_stopped, threads)
    strangers = beside.strangers if wanted.cause is Cause.ORPHAN else None
    uuids = frozenset[str]() if strangers is None else strangers.uuids
    if beside.history is not None:
        return Refused(Refusal(Reason.OTHER_HISTORY, f"in its metadata folder {beside.history}"), uuids)
    return None if strangers is None else Refused(strangers.refusal, uuids)


def _against_table(now: Table, wanted: Search) -> Refusal | None:
    """What the table itself shows against it."""
    if str(now.metadata.table_uuid) != wanted.uuid:
        return Refusal(
            Reason.GONE, f"{name_from(now.name())} is another table now: {now.metadata.table_uuid}"
        )
    if not is_gc_enabled(now.metadata.properties):
        return Refusal(Reason.GC_DISABLED, GC_DISABLED)
    last = last_sequence_number(now.metadata)
    if last is not None and last < wanted.seen_through:
        why = f"its history went back: its last sequence number is {last}, it was {wanted.seen_through}"
        return Refusal(Reason.STALE, why)
    if why := misplaced_table(now.metadata):
        return Refusal(Reason.LOCATION, why)
    return None


def _needed(
    now: Table, wanted: Search, names: Container[str], is_stopped: IsStopped, threads: Threads
) -> Iterator[Iterable[str]]:
    """The locations that the table needs and whose names are among these, some at a time."""
    if wanted.cause is Cause.OLD_VERSION:
        yield [one for location in versions(now) for one in taken_for(location)]
    else:
        yield from reaching(now.metadata, now.io, ByName(names), None, is_stopped, threads)


def _listed(
    io: FileIO, wanted: Search, is_stopped: IsStopped, see: Callable[[str], None]
) -> Iterator[tuple[str, StoredFile]]:
    """The files of the kind that is looked for, each with the location below which its name begins; `see` is told of all."""
    home = wanted.home.rstrip("/") + "/"
    is_wanted: Callable[[str], bool] = is_orphan_by_name
    parts: tuple[str, ...] = ("data/", "metadata/")
    if wanted.cause is Cause.OLD_VERSION:
        is_wanted, parts = is_old_version_by_name, ("metadata/",)
    for part in parts:
        for some in files_below(io, home + part):
            if is_stopped():
                raise Stopped
            for number, file in enumerate(some, 1):
                if number % ASKED_EVERY == 0 and is_stopped():
                    raise Stopped
                see(part + file.name)
                if is_wanted(part + file.name) and f"{home}{part}{file.name}" not in wanted.theirs:
                    yield home + part, file


@dataclass(frozen=True, slots=True)
class Either:
    """What is among one or the other."""

    one: Container[str]
    other: Container[str]

    def __contains__(self, text: object) -> bool:
        return text in self.one or text in self.other


class Others:
    """Folders in a table's folders that are somebody else's: another format's table, or one of Iceberg."""

    def __init__(self, home: str) -> None:
        self._home, self._folders = home.rstrip("/") + "/", set[str]()

    def __contains__(self, path: object) -> bool:
        # By the folders above it, which are few: there may be as many of somebody else's as there are files.
        return deepest(str(path), self._folders) is not None

    def add(self, path: str) -> None:
        """Take in a file; its path begins below the table's location."""
        for sign in _SIGNS:
            place = path.find(sign)
            if place > 0:
                self._folders.add(folder(self._home + path[:place]))
        if path.endswith(METADATA_ENDS) and "/metadata/" in path:
            self._folders.add(folder(self._home + path[: path.rindex("/metadata/")]))
