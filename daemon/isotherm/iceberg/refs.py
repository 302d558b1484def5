"""Branches and tags of a table: until when they keep snapshots, and when they are past their own age."""

import re

from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType

from isotherm.contract.summary import STAGED_AS
from isotherm.core.model.tables import RefEnd
from isotherm.core.planner.expirable import STAGED_FOR_MS, Ref, kept_by_refs
from isotherm.iceberg.snapshots import history, summary_of

MOST_REF_ENDS = 100
"""Of branches and tags with an age, so many are in a row of the fold; as many are dropped in one commit."""
LONGEST_NAME = 1_000
"""Characters of a name; one that is longer is not dropped, because it would be in a row of the fold."""
MOST_STATED = 10**17
"""Three million years in milliseconds."""


def ref_ends(metadata: TableMetadata) -> tuple[RefEnd, ...]:
    """When each branch and tag is past its own age, the soonest first: counted from the time of its snapshot, as in Iceberg's
    Java. `main` never is. What one does not state itself, the table's property `history.expire.max-ref-age-ms` may.
    """
    made_ms = {snapshot.snapshot_id: snapshot.timestamp_ms for snapshot in metadata.snapshots}
    by_table = metadata.properties.get("history.expire.max-ref-age-ms")
    found = []
    for name, ref in metadata.refs.items():
        age_ms = _stated(ref.max_ref_age_ms, by_table)
        # By the specification an age is positive. Any other value drops nothing.
        is_aged = age_ms is not None and age_ms > 0 and ref.snapshot_id in made_ms
        if age_ms is not None and is_aged and name != MAIN_BRANCH and len(name) <= LONGEST_NAME:
            found.append(RefEnd(name, made_ms[ref.snapshot_id] + age_ms + 1))
    return tuple(sorted(found, key=lambda end: (end.over_at_ms, end.name)))


def kept_until_ms(metadata: TableMetadata) -> dict[int, int]:
    """Until when the table's own branches and tags keep its snapshots (`expirable.kept_by_refs`).

    What a branch does not state itself the table's properties may state; for `main` those are the policy's to weigh.
    """
    least, oldest = (
        metadata.properties.get(f"history.expire.{name}")
        for name in ("min-snapshots-to-keep", "max-snapshot-age-ms")
    )
    refs = []
    for name, ref in metadata.refs.items():
        is_main = name == MAIN_BRANCH
        if is_main and ref.min_snapshots_to_keep is None and ref.max_snapshot_age_ms is None:
            continue
        refs.append(
            Ref(
                ref.snapshot_id,
                ref.snapshot_ref_type is SnapshotRefType.BRANCH,
                _stated(ref.min_snapshots_to_keep, None if is_main else least),
                _stated(ref.max_snapshot_age_ms, None if is_main else oldest),
            )
        )
    return kept_by_refs(
        refs,
        {snapshot.snapshot_id: snapshot.parent_snapshot_id for snapshot in metadata.snapshots},
        {snapshot.snapshot_id: snapshot.timestamp_ms for snapshot in metadata.snapshots},
    )


def needed_until_ms(metadata: TableMetadata) -> dict[int, int]:
    """The same, and until when what is staged keeps its parent, and what came on `main` since.

    Iceberg's Java publishes an overwrite of whole partitions only where it finds that parent from the head on.
    """
    kept = kept_until_ms(metadata)
    until_ms: dict[int | None, int] = {}
    for snapshot in metadata.snapshots:
        parent = snapshot.parent_snapshot_id
        if STAGED_AS in summary_of(snapshot):
            until_ms[parent] = max(until_ms.get(parent, 0), snapshot.timestamp_ms + STAGED_FOR_MS)
    if not until_ms:
        return kept
    needed_ms = 0
    parents = {snapshot.snapshot_id: snapshot.parent_snapshot_id for snapshot in metadata.snapshots}
    for snapshot_id in reversed(list(history(parents, metadata.current_snapshot_id))):
        needed_ms = max(needed_ms, until_ms.get(snapshot_id, 0))
        kept[snapshot_id] = max(kept.get(snapshot_id, 0), needed_ms)
    return kept


def _stated(by_ref: int | None, by_table: str | None) -> int | None:
    """What a ref says, or the table for it. A number that is very large says: for ever."""
    if by_ref is not None:
        return min(by_ref, MOST_STATED)
    if by_table is None:
        return None
    return min(int(by_table), MOST_STATED) if re.fullmatch(r"-?[0-9]{1,100}", by_table, re.ASCII) else None
