"""Files come back from a table's quarantine: those that the table needs by itself, and those that a person wants.

Of several files that were in one place the newest comes back that may be the one which the table names. Nothing is
written over. Where one cannot be looked at or moved, no older one comes in its place.
"""

from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from pyiceberg.io import FileIO
from pyiceberg.table import Table

from isotherm.clients.listing import written_at_ms
from isotherm.clients.moving import OtherFileError, size_of
from isotherm.clients.storage import REQUESTS_AT_ONCE
from isotherm.contract.paths import cluster, folder, normalised
from isotherm.core.deletion import Evidence, Finding, Verdict, name_of
from isotherm.core.quarantine import fits, origin_of
from isotherm.iceberg.by_name import ByName
from isotherm.iceberg.manifests.reachability import sizes_named
from isotherm.iceberg.named_files import NamedFiles
from isotherm.iceberg.quarantine import listed, put_back, targets_of
from isotherm.iceberg.stopping import IsStopped
from isotherm.iceberg.threads import THREADS, Threads
from isotherm.service.ports import LoadedTable, Sweep

NAMED_THERE = "the table names it where it lies now, so it must not be moved"
TAKEN_AGAIN = "it was taken away again just now: look where it is (isotherm orphans), and try again"


@dataclass(slots=True)
class _Back:
    """What became of files in quarantine that were in one place."""

    back: str | None = None
    """Where the one lay that is back."""
    there: str | None = None
    """Where one lies that is in its old place too: nothing was moved."""
    missing: list[str] = field(default_factory=list)
    """Where files lay that are in quarantine no more."""
    stays: dict[str, str] = field(default_factory=dict)
    """By place, why others stay there."""


def _put_newest_back(io: FileIO, home: str, places: Collection[str], sizes: Collection[int]) -> _Back:
    """Put back the newest of several files that were in one place, of those that have one of these sizes."""
    result, left = _Back(), list(places)
    try:
        ages = {place: written_at_ms(io, place) for place in places}
        result.missing = [place for place, at_ms in ages.items() if at_ms is None]
        left = sorted(set(places).difference(result.missing), key=lambda one: (ages[one], one), reverse=True)
        for place in tuple(left):
            if result.back or result.there:
                result.stays[place] = "a newer one is in its old place again"
            elif not fits(size_bytes := size_of(io, place) or 0, sizes):
                said = " or ".join(map(str, sorted(sizes)))
                result.stays[place] = (
                    f"it has {size_bytes} bytes, and the table names one of {said} bytes there"
                )
            else:
                _put(io, home, place, result)
            left.remove(place)
    except Exception as err:  # noqa: BLE001 (every store has errors of its own)
        result.stays.update(dict.fromkeys(left, f"{type(err).__name__}: {err}"))
    return result


def _put(io: FileIO, home: str, place: str, result: _Back) -> None:
    try:
        if put_back(io, home, place):
            result.back = place
        else:
            result.there = place
    except OtherFileError:
        origin = origin_of(place, home)
        result.stays[place] = f"another file is at {origin}: move or delete that, and try again"


@dataclass(frozen=True, slots=True)
class Restored:
    """What became of files in quarantine that are needed where they were."""

    restored: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    """They were there no more."""
    postponed: dict[str, str] = field(default_factory=dict)


def restored(
    table: Table,
    wanted: Sweep,
    verdicts: Mapping[str, Verdict],
    evidence: Evidence,
    is_stopped: IsStopped,
    threads: Threads,
) -> Restored:
    """Put back what is in quarantine and needed where it was.

    An orphan that is needed now may be there too: the process may have ended when it was moved and nobody had written that
    down. The table is loaded again for it: the keys that a catalog gave out may be over when the proof is.
    """
    home, targets, result = wanted.home, targets_of(wanted), Restored()
    back = {path for path, one in verdicts.items() if one.finding is Finding.RESTORE}
    half = {
        targets[path] for path, one in verdicts.items() if one.finding is Finding.KEEP and path in targets
    }
    half = {one for one in half.difference(evidence.elsewhere) if one in evidence.in_quarantine}
    if home is None or not (back or half):
        return result
    try:
        now = table.catalog.load_table(table.name())
    except Exception as err:  # noqa: BLE001 (whatever keeps us from it, nothing was moved)
        why = f"it is needed where it was, and the table cannot be loaded: {type(err).__name__}: {err}"
        result.postponed.update(dict.fromkeys(back, why))
        return result
    if str(now.metadata.table_uuid) != wanted.uuid:
        result.postponed.update(dict.fromkeys(back, "the table was replaced while it was looked at"))
        return result
    io = now.io

    def put(places: Sequence[str]) -> None:
        if is_stopped():
            return
        sizes = frozenset[int]().union(*(evidence.sizes.get(place, ()) for place in places))
        one = _put_newest_back(io, home, places, sizes)
        result.missing.extend(place for place in one.missing if place in back)
        if one.back is not None:
            result.restored.append(one.back)
        elif one.there is None:
            # An orphan waits for nothing: what cannot be put back now is found in quarantine by the next search.
            why = "it is needed where it was, and cannot be put back"
            result.postponed.update(
                {place: f"{why}: {one.stays[place]}" for place in one.stays if place in back}
            )

    deque(threads.each(put, _by_origin(home, sorted((*back, *half))), REQUESTS_AT_ONCE), maxlen=0)
    return result


def _by_origin(home: str, places: Iterable[str]) -> list[list[str]]:
    """The places of files in quarantine, those together that were in one place."""
    found: dict[str, list[str]] = {}
    for place in places:
        found.setdefault(normalised(origin_of(place, home) or place), []).append(place)
    return list(found.values())


@dataclass(frozen=True, slots=True)
class Restorable:
    """A file in quarantine."""

    home: str
    """The location of its table."""
    place: str
    """Where it lies."""
    origin: str
    """Where it was."""
    written_at_ms: int


def restorable(loaded: LoadedTable, homes: Collection[str]) -> list[Restorable]:
    """What is in a table's quarantine, below any of these locations, of which some may be spellings of one.

    Raises:
        OSError: the store does not answer, or refuses.
    """
    table: Table = loaded.handle
    return [
        Restorable(home, one.path, origin, one.written_at_ms)
        for home in _places(homes)
        for one in listed(table.io, home)
        if (origin := origin_of(one.path, home)) is not None
    ]


def _places(homes: Iterable[str]) -> list[str]:
    """Each place once, as it is spelled first. A cluster of HDFS that one spelling leaves out is that of the other."""
    found: list[str] = []
    for home in homes:
        same = (one for one in found if folder(one) == folder(home))
        if not any(cluster(one) == cluster(home) or not (cluster(one) and cluster(home)) for one in same):
            found.append(home)
    return found


@dataclass(frozen=True, slots=True)
class RestoredByHand:
    """What became of files that a person has put back."""

    restored: dict[str, int] = field(default_factory=dict)
    """By path, the time that the store has of each."""
    there: dict[str, int] = field(default_factory=dict)
    """The same of those that were there already: nothing was moved."""
    failed: dict[str, str] = field(default_factory=dict)
    """By the place in quarantine: why a file stays there, or is gone."""


def restore(loaded: LoadedTable, files: Iterable[Restorable]) -> RestoredByHand:
    """Move files to where they were.

    The daemon may take one away that is there already: it may have begun before. So all are looked at once more at the end.

    Raises:
        OSError, UnreadableError: a manifest list or manifest cannot be read.
    """
    table: Table = loaded.handle
    files = list(files)
    named, by_home = NamedFiles(), dict[str, list[str]]()
    names = ByName({name_of(path) for one in files for path in (one.origin, one.place)})
    for location, size_bytes in sizes_named(table.metadata, table.io, names):
        named.add(location, size_bytes)
    moved: list[tuple[str, str, bool]] = []
    failed: dict[str, str] = {}
    for file in files:
        if named.has(file.place):
            failed[file.place] = NAMED_THERE
        else:
            by_home.setdefault(file.home, []).append(file.place)

    def put(both: tuple[str, list[str]]) -> None:
        home, places = both
        origin = origin_of(places[0], home) or places[0]
        one = _put_newest_back(table.io, home, places, _sizes_for(table.io, named, origin))
        failed.update(one.stays)
        failed.update(dict.fromkeys(one.missing, "it is there no more"))
        moved.extend((place, origin, place == one.back) for place in (one.back, one.there) if place)

    groups = [(home, same) for home, places in by_home.items() for same in _by_origin(home, places)]
    deque(THREADS.each(put, groups, REQUESTS_AT_ONCE), maxlen=0)
    return _looked_at_again(table.io, sorted(moved), failed)


def _sizes_for(io: FileIO, named: NamedFiles, origin: str) -> Collection[int]:
    """The sizes that a file must have here to be the one which the table means; any, where it means files elsewhere."""
    with suppress(Exception):  # a store that does not say has not shown that they are
        if named.are_elsewhere(origin, lambda location: size_of(io, location)):
            return ()
    return named.sizes_at(origin)


def _looked_at_again(
    io: FileIO, moved: Iterable[tuple[str, str, bool]], failed: dict[str, str]
) -> RestoredByHand:
    """Look whether what came back is there still: each with its place, where it was, and whether it was moved."""
    restored: dict[str, int] = {}
    there: dict[str, int] = {}

    def look(one: tuple[str, str, bool]) -> None:
        place, origin, has_moved = one
        try:
            at_ms = written_at_ms(io, origin)
        except Exception as err:  # noqa: BLE001 (every store has errors of its own)
            failed[place] = f"it is put back, and cannot be looked at: {type(err).__name__}: {err}"
            return
        if at_ms is None:
            failed[place] = TAKEN_AGAIN
        else:
            (restored if has_moved else there)[origin] = at_ms

    deque(THREADS.each(look, list(moved), REQUESTS_AT_ONCE), maxlen=0)
    return RestoredByHand(
        dict(sorted(restored.items())), dict(sorted(there.items())), dict(sorted(failed.items()))
    )
