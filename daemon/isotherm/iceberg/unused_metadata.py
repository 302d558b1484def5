"""Which schemas and partition specs of a table nothing uses any more. Only reads.

A schema is in use where a snapshot that the table has names it, on whichever branch, or staged. A spec is in use where
one of its manifests is named by such a snapshot. Three rules go further than Iceberg's own `cleanExpiredMetadata`:

- *What a writer may still hold stays*, though no snapshot has it: it was the present one between two changes. Ids rise, so
  whoever began after some snapshot has that one's schema and spec, or later ones (but where somebody goes back to an earlier
  one, which has its old id then: docs/policies.md asks not to). The newest snapshot that goes was there
  `keep_for` ago. All from its schema on stays, and all from the last spec of its manifests on; so an id goes an expiry late.
- *The highest id stays.* New ids are counted from it. If it were given again, a writer that still holds the old spec
  would commit files whose partition values mean something else by then, and nothing would refuse them.
- *Of each column the present schema, or the newest that has it, stays*, also of a dropped one: equality deletes may name it, and a spec may
  be made from it. Nothing but a schema tells its type.

Sort orders stay altogether. A data file names its own in a manifest's entry, so all manifests would have to be read, and
an order takes a few bytes.
"""

from collections.abc import Collection, Sequence

from pyiceberg.io import FileIO
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot

from isotherm.iceberg.manifests.snapshot_files import SnapshotFiles
from isotherm.iceberg.stopping import IsStopped, Stopped, never
from isotherm.iceberg.threads import THREADS, Threads
from isotherm.service.ports import UnusedSpecs

LISTS_AT_ONCE = 256
MOST_LISTS = 20_000
"""Manifest lists that are read for it: two weeks with a commit a minute. Of a longer history all specs stay."""


def unused_schemas(metadata: TableMetadata, from_schema: int) -> frozenset[int]:
    """The schemas that may go; from this one on all stay."""
    newest_first = sorted(metadata.schemas, key=lambda one: one.schema_id, reverse=True)
    staying = {one.schema_id for one in newest_first[:1]} | {metadata.current_schema_id}
    staying |= {one.schema_id for one in metadata.snapshots if one.schema_id is not None}
    known = set(metadata.schema().field_ids)
    for schema in newest_first:
        if not schema.field_ids <= known:
            staying.add(schema.schema_id)
            known |= schema.field_ids
    return frozenset(one.schema_id for one in newest_first if one.schema_id < from_schema) - staying


def replaced_specs(metadata: TableMetadata) -> frozenset[int]:
    """The specs that may go if no manifest has them."""
    ids = {one.spec_id for one in metadata.partition_specs}
    return frozenset(ids - {metadata.default_spec_id, max(ids, default=0)})


def unused_specs(
    metadata: TableMetadata,
    io: FileIO,
    going: Sequence[int],
    is_stopped: IsStopped = never,
    threads: Threads = THREADS,
) -> UnusedSpecs:
    """The specs that no manifest has of the snapshots that stay once these are gone.

    Where a list cannot be read, all specs stay. No list is read where no spec may go, and none any more once each is seen to
    be in use: first that of the snapshot after which writers may have begun, then the head's, then the oldest.

    Raises:
        Stopped: so it was wanted.
    """
    staying = [one for one in metadata.snapshots if one.snapshot_id not in going]
    head, least = metadata.current_snapshot(), writers_began_after(metadata, going)
    if head is None or least is None:
        return UnusedSpecs(snapshots=frozenset(one.snapshot_id for one in staying))
    from_schema, unused = least.schema_id or 0, replaced_specs(metadata)
    try:
        if unused:
            last = max(next(iter(SnapshotFiles(io, is_stopped, threads).specs([least]))), default=0)
            unused = frozenset(one for one in unused if one < last)
        for some in ([head], staying):
            unused = without_used(unused, io, some, is_stopped, threads)
    except Stopped:
        raise
    except Exception as err:  # noqa: BLE001 (whatever a store may say: the expiry is not in question)
        return UnusedSpecs(
            from_schema=from_schema, why=f"specs stay, because a manifest list cannot be read: {err}"
        )
    return UnusedSpecs(unused, from_schema, frozenset(one.snapshot_id for one in staying))


def writers_began_after(metadata: TableMetadata, going: Collection[int]) -> Snapshot | None:
    """The newest snapshot behind the head that is among those that go.

    None where only others go: somebody else may have expired what was behind the head, and nothing tells how long ago it
    was the head's time.
    """
    snapshots = {one.snapshot_id: one for one in metadata.snapshots}
    found = metadata.current_snapshot()
    # Taken out as they are visited: damaged metadata may lead in a circle.
    while found is not None and found.snapshot_id not in going:
        found = snapshots.pop(found.parent_snapshot_id or -1, None)
    return found


def without_used(
    specs: frozenset[int], io: FileIO, snapshots: Sequence[Snapshot], is_stopped: IsStopped, threads: Threads
) -> frozenset[int]:
    """Of some specs those that no manifest of these snapshots has.

    Raises:
        OSError, UnreadableError: a list cannot be read, or there are too many.
        Stopped: so it was wanted.
    """
    files = SnapshotFiles(io, is_stopped, threads)
    if specs and len(snapshots) > MOST_LISTS:
        raise OSError(
            f"the table has {len(snapshots)} snapshots, and no more than {MOST_LISTS} lists are read"
        )
    for start in range(0, len(snapshots), LISTS_AT_ONCE):
        for used in files.specs(snapshots[start : start + LISTS_AT_ONCE]) if specs else ():
            specs -= used
    return specs
