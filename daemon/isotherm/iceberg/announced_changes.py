"""What an event says that a snapshot did, read from the manifests that it names.

An event may name anything: only manifests below its own table are read, and no more of each than the event says. What
cannot be read is no error here. Then the round asks the catalog.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from pyiceberg.manifest import ManifestContent, ManifestFile
from pyiceberg.table import Table

from isotherm.clients.manifests.avro import content
from isotherm.contract.events import CommitEvent
from isotherm.contract.paths import normalised
from isotherm.core.model.changes import Change
from isotherm.iceberg.manifests.counts import LARGE_BYTES
from isotherm.iceberg.manifests.snapshot_files import SIZES
from isotherm.iceberg.threads import Threads
from isotherm.iceberg.values import deltas_of, names_of, totals_of
from isotherm.runtime.clock import monotonic_s
from isotherm.service.ports import GoOn, LoadedTable

MAX_READ_BYTES = 64 * 1024 * 1024
"""Of the manifests that one event names, because those of many events are in memory together."""
QUICK_S = 0.001
"""A file that is there sooner is on a disk of this machine. Threads take more time from one another than it took."""
SLOW_IN_A_ROW = 2
"""So many, and it is the store. One alone may be this machine, which did something else meanwhile."""

Asked = tuple[LoadedTable, CommitEvent]
Fetched = tuple[Sequence[ManifestFile], Mapping[str, bytes]]
"""Manifests, and the bytes of those that were read already, by path."""


def changes_announced(
    asked: Sequence[Asked], threads: Threads, go_on: GoOn, clock_s: Callable[[], float] = monotonic_s
) -> Sequence[Change | None]:
    """What the manifests of each say; None where it does not name them all, or names files of others.

    A store that answers each read after 30 ms answers many at once, and one that is quick is asked by this thread alone.
    Those that name large manifests are read fewer together. Threads that all decode only wait for one another: of small
    manifests they fetch no more than the bytes.
    """
    if len(asked) < 2:
        return [_read(*one, go_on) for one in asked]
    changes: dict[int, Change | None] = {}
    sizes = [sum(one.length for one in event.added_manifests) for _, event in asked]
    floor_bytes = -1
    read: Iterable[Change | None]
    for limit_bytes, at_once in ((LARGE_BYTES, SIZES[0][1]), *SIZES):
        places = [place for place, size in enumerate(sizes) if floor_bytes < size <= limit_bytes]
        if limit_bytes == LARGE_BYTES:
            fetched = _fetched_each([asked[place] for place in places], threads, at_once, clock_s)
            read = (_counted(*asked[place], got, go_on) for place, got in zip(places, fetched, strict=True))
        else:
            read = threads.each(lambda place: _read(*asked[place], go_on), places, at_once)
        changes |= zip(places, read, strict=True)
        floor_bytes = limit_bytes
    return [changes.get(place) for place in range(len(asked))]


def _named_by(loaded: LoadedTable, event: CommitEvent) -> Sequence[ManifestFile] | None:
    """The manifests that a snapshot added; None where its event leaves some out, or names files of others."""
    table: Table = loaded.handle
    home = normalised(table.metadata.location).rstrip("/") + "/"
    elsewhere = table.metadata.properties.get("write.metadata.path")
    homes = (home, normalised(elsewhere).rstrip("/") + "/") if elsewhere else (home,)
    known_specs = table.metadata.specs()
    paths = {manifest.path for manifest in event.added_manifests}
    size_bytes = sum(manifest.length for manifest in event.added_manifests)
    if not event.added_manifests_complete or len(paths) < len(event.added_manifests):
        return None
    if size_bytes > MAX_READ_BYTES:
        return None  # a short message must not make us read for long; the manifest list is asked in the round
    for manifest in event.added_manifests:
        path = normalised(manifest.path)
        if not path.startswith(homes) or ".." in path or manifest.spec_id not in known_specs:
            return None
    return [
        ManifestFile.from_args(
            manifest_path=manifest.path,
            manifest_length=manifest.length,
            partition_spec_id=manifest.spec_id,
            content=ManifestContent.DATA if manifest.content == "data" else ManifestContent.DELETES,
            sequence_number=event.sequence_number,
            min_sequence_number=event.sequence_number,
            added_snapshot_id=event.snapshot_id,
        )
        for manifest in event.added_manifests
        if manifest.added_files or manifest.deleted_files
    ]


def _fetched_each(
    asked: Sequence[Asked], threads: Threads, at_once: int, clock_s: Callable[[], float]
) -> Iterator[Fetched | None]:
    """The manifests of each with their bytes: one after another while that is quick, then the others at the same time."""
    slow = 0
    for place, one in enumerate(asked):
        began_s = clock_s()
        fetched = _fetched(*one)
        slow = slow + 1 if clock_s() - began_s > QUICK_S else 0
        yield fetched
        if slow == SLOW_IN_A_ROW:
            yield from threads.each(lambda other: _fetched(*other), asked[place + 1 :], at_once)
            return


def _fetched(loaded: LoadedTable, event: CommitEvent) -> Fetched | None:
    """The manifests that an event names, with their bytes; None where they cannot be had."""
    manifests = _named_by(loaded, event)
    if manifests is None:
        return None
    files = loaded.handle.io
    try:
        return manifests, {
            one.manifest_path: content(files, one.manifest_path, one.manifest_length) for one in manifests
        }
    except Exception:  # noqa: BLE001 (a file that only an event names may be anything, or nothing)
        return None


def _read(loaded: LoadedTable, event: CommitEvent, go_on: GoOn) -> Change | None:
    """The change of which an event speaks, its manifests read one after another."""
    manifests = _named_by(loaded, event)
    return _counted(loaded, event, None if manifests is None else (manifests, {}), go_on)


def _counted(
    loaded: LoadedTable, event: CommitEvent, manifests: Fetched | None, go_on: GoOn
) -> Change | None:
    """The change of which an event speaks; None where its manifests cannot be read."""
    if manifests is None:
        return None
    named, fetched = manifests
    try:
        partitions = deltas_of(loaded.handle, named, event.snapshot_id, fetched, go_on)
    except Exception:  # noqa: BLE001 (as above)
        return None
    return Change(
        snapshot_id=event.snapshot_id,
        parent_id=event.parent_id,
        sequence_number=event.sequence_number,
        committed_at_ms=event.timestamp_ms,
        operation=event.operation,
        origin=event.origin_kind,
        partitions=partitions,
        manifests=names_of(named),
        valid_through_ms=event.valid_through_ms,
        totals=totals_of(event.summary),
    )
