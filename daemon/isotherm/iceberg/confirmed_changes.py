"""What snapshots did, as their metadata, manifest lists and manifests have it: what an event said is held against it.

Since the last confirmation there may have been many commits, and each has a manifest list of its own. The lists are
fetched together, and so are little manifests: a store may take 60 ms for each. They are decoded in turn.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from typing import TypeVar

from pyiceberg.manifest import ManifestFile
from pyiceberg.table.snapshots import Snapshot

from isotherm.clients.manifests.avro import content
from isotherm.core.model.changes import Change
from isotherm.iceberg.errors import translated
from isotherm.iceberg.manifests.counts import LARGE_BYTES
from isotherm.iceberg.manifests.snapshot_files import LARGE_AT_ONCE
from isotherm.iceberg.threads import Threads
from isotherm.iceberg.values import added_manifests, change_of, names_of, snapshot_of
from isotherm.service.ports import GoOn, LoadedTable

Added = tuple[Snapshot, Sequence[ManifestFile]]
"""A snapshot, and the manifests that its list says it added."""
READ_AT_ONCE = 32
"""Snapshots of which the little manifests are in memory together: a megabyte."""
Item = TypeVar("Item")
Read = TypeVar("Read")


def changes_confirmed(
    loaded: LoadedTable, snapshot_ids: Sequence[int], threads: Threads, go_on: GoOn
) -> Iterator[Change]:
    """What some snapshots of a table did, in their order."""
    for start in range(0, len(snapshot_ids), READ_AT_ONCE):
        some = snapshot_ids[start : start + READ_AT_ONCE]
        added = _together(partial(_added, loaded), some, threads, go_on)
        fetched = _together(partial(_fetched, loaded), added, threads, go_on)
        for (snapshot, manifests), data in zip(added, fetched, strict=True):
            with _of(loaded, snapshot.snapshot_id):
                change = change_of(loaded.handle, snapshot, manifests, data, go_on)
            yield change


def are_true(loaded: LoadedTable, changes: Sequence[Change], threads: Threads, go_on: GoOn) -> list[bool]:
    """Of each change that an event brought: whether the snapshot's metadata and its manifest list say the same."""
    snapshot_ids = [change.snapshot_id for change in changes]
    added = _together(partial(_added, loaded), snapshot_ids, threads, go_on)
    return [_is_true(loaded, change, one) for change, one in zip(changes, added, strict=True)]


def _is_true(loaded: LoadedTable, change: Change, added: Added) -> bool:
    snapshot, manifests = added
    truth = replace(change_of(loaded.handle, snapshot, ()), manifests=names_of(manifests))
    # A writer's event may leave the summary out; then there were no totals to compare.
    return truth == replace(change, partitions={}, totals=change.totals or truth.totals)


def _added(loaded: LoadedTable, snapshot_id: int) -> Added:
    with _of(loaded, snapshot_id):
        snapshot = snapshot_of(loaded.handle, snapshot_id)
        return snapshot, added_manifests(loaded.handle.io, snapshot)


def _fetched(loaded: LoadedTable, added: Added) -> Mapping[str, bytes]:
    """The bytes of a snapshot's manifests by path, where they are few. Large ones are read when they are counted."""
    snapshot, manifests = added
    if sum(one.manifest_length for one in manifests) > LARGE_BYTES:
        return {}
    with _of(loaded, snapshot.snapshot_id):
        files = loaded.handle.io
        return {
            one.manifest_path: content(files, one.manifest_path, one.manifest_length) for one in manifests
        }


def _together(
    work: Callable[[Item], Read], items: Sequence[Item], threads: Threads, go_on: GoOn
) -> list[Read]:
    """The same for each, in as much time as there is; a single one, as it is mostly, needs no thread."""
    read: list[Read] = []
    for one in map(work, items) if len(items) < 2 else threads.each(work, items, LARGE_AT_ONCE):
        go_on()
        read.append(one)
    return read


def _of(loaded: LoadedTable, snapshot_id: int) -> AbstractContextManager[None]:
    """Errors in the service's words, with the snapshot that they are about."""
    return translated(f"snapshot {snapshot_id} of {loaded.table}")
