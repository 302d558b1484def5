"""What somebody has written beside `main`, to look at it first, and can publish only while `main` stays where it is.

A branch on top of `main` is published by a fast-forward, a staged snapshot (`wap.id`) by a cherry-pick. Iceberg refuses the
former once `main` has moved, whoever moved it. It does so for the latter too, but for appends; and for a dynamic overwrite
only where its partitions have new files. A compaction in between would have all that work done once more.
"""

from collections.abc import Collection, Mapping

from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.snapshots import Snapshot

from isotherm.contract.summary import PICKED_FROM, REPLACES_PARTITIONS, STAGED_AS
from isotherm.core.units import DAY_MS
from isotherm.iceberg.values import history, operation_of, summary_of

WAITS_MS = DAY_MS
"""What is older is forgotten, or will not be published: a branch that stays must not keep a table from being compacted."""


def unpublished(metadata: TableMetadata, now_ms: int) -> str:
    """What would be lost for its writer if `main` moved now, or nothing.

    Args:
        metadata: the table's.
        now_ms: the time.
    """
    head_id = metadata.current_snapshot_id
    snapshots = {one.snapshot_id: one for one in metadata.snapshots}
    if head_id is None:
        return ""
    young = {key for key, one in snapshots.items() if abs(now_ms - one.timestamp_ms) < WAITS_MS}
    parents = {key: one.parent_snapshot_id for key, one in snapshots.items()}
    passed: set[int] = set()
    for name, ref in metadata.refs.items():
        is_young = name != MAIN_BRANCH and ref.snapshot_id != head_id and ref.snapshot_id in young
        if is_young and _goes_on_from(head_id, parents, ref.snapshot_id, passed):
            return (
                f"{name} goes on from the head of main, and main could not be fast-forwarded to it any more"
            )
    staged = [one for one in metadata.snapshots if one.snapshot_id in young and _is_bound_to_main(one)]
    if not staged:
        return ""
    on_main = set(history(parents, head_id))
    picked = {summary_of(snapshots[one]).get(PICKED_FROM) for one in on_main}
    for one in staged:
        if (
            one.snapshot_id not in on_main
            and str(one.snapshot_id) not in picked
            and _fits(one, head_id, on_main)
        ):
            return f"snapshot {one.snapshot_id} is staged, and could not be published any more"
    return ""


def _goes_on_from(head_id: int, parents: Mapping[int, int | None], newest: int, passed: set[int]) -> bool:
    """Whether the head lies behind a snapshot; it does not lie behind those that were passed before."""
    for one in history(parents, newest):
        if one == head_id:
            return True
        if one in passed:
            return False
        passed.add(one)
    return False


def _is_bound_to_main(snapshot: Snapshot) -> bool:
    return STAGED_AS in summary_of(snapshot) and operation_of(snapshot) != "append"


def _fits(staged: Snapshot, head_id: int, on_main: Collection[int]) -> bool:
    """Whether it can be published as `main` is now."""
    if summary_of(staged).get(REPLACES_PARTITIONS, "").lower() == "true":
        return staged.parent_snapshot_id in on_main
    return staged.parent_snapshot_id == head_id
