"""What somebody has written beside `main`, to look at it first, and can publish only while `main` stays where it is.

A branch on top of `main` is published by a fast-forward, a staged snapshot (`wap.id`) by a cherry-pick. Iceberg refuses the
former once `main` has moved, whoever moved it. It does so for the latter too, but for appends; and for a dynamic overwrite
only where its partitions have new files. A compaction in between would have all that work done once more.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import takewhile

from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType
from pyiceberg.table.snapshots import Snapshot

from isotherm.contract.summary import PICKED_FROM, REPLACES_PARTITIONS, STAGED_AS
from isotherm.core.model.tables import UNPUBLISHED_FOR_MS, Unpublished
from isotherm.iceberg.snapshots import history, operation_of, summary_of

MOST_SAID = 100
"""Characters of a branch's name: each partition that waits repeats it."""
MOST_KEPT = 10
"""Of what waits. It takes one to keep `main` where it is."""


def unpublished(metadata: TableMetadata) -> tuple[Unpublished, ...]:
    """What would be lost for its writer if `main` moved, newest first: enough of it to tell at any time whether anything is."""
    return tuple(enough(_found(metadata)))


def waits_to_be_published(metadata: TableMetadata, now_ms: int) -> str:
    """What would be lost for its writer if `main` moved now, or nothing."""
    return next((one.why for one in _found(metadata) if one.waits(now_ms)), "")


def _found(metadata: TableMetadata) -> Iterator[Unpublished]:
    yield from _branches(metadata)
    yield from _staged(metadata)


def enough(found: Iterable[Unpublished]) -> list[Unpublished]:
    """A few of which one waits whenever any of them does.

    What was stamped by a clock that is ahead waits at another time, and must not hide what waits now. Between two that
    are less than twice a span apart, one of both waits all the time.
    """
    rest, kept = sorted(found, key=lambda one: -one.written_at_ms), list[Unpublished]()
    while rest and len(kept) < MOST_KEPT:
        since_ms = kept[-1].written_at_ms - 2 * UNPUBLISHED_FOR_MS if kept else rest[0].written_at_ms
        near = sum(one.written_at_ms > since_ms for one in rest)
        place = max(near - 1, 0)
        kept.append(rest[place])
        rest = rest[place + 1 :]
    return kept


def _branches(metadata: TableMetadata) -> Iterator[Unpublished]:
    """Those on top of `main`."""
    head_id = metadata.current_snapshot_id
    if head_id is None:
        return
    written_ms = {one.snapshot_id: one.timestamp_ms for one in metadata.snapshots}
    parents = {one.snapshot_id: one.parent_snapshot_id for one in metadata.snapshots}
    known = {head_id: True}
    for name, ref in metadata.refs.items():
        is_other = name != MAIN_BRANCH and ref.snapshot_ref_type is SnapshotRefType.BRANCH
        # A tag is published by nobody: after a rollback, those on what was taken back lie ahead too.
        is_ahead = is_other and ref.snapshot_id != head_id and ref.snapshot_id in written_ms
        if is_ahead and _goes_on_from_main(ref.snapshot_id, parents, known):
            said = name if len(name) <= MOST_SAID else f"{name[:MOST_SAID]}…"
            why = f"{said} goes on from the head of main, and main could not be fast-forwarded to it any more"
            yield Unpublished(why, written_ms[ref.snapshot_id])


def _staged(metadata: TableMetadata) -> Iterator[Unpublished]:
    """Staged snapshots that are not published yet, and fit to `main` as it is."""
    head_id = metadata.current_snapshot_id
    staged = [one for one in metadata.snapshots if _is_bound_to_main(one)]
    if head_id is None or not staged:
        return
    snapshots = {one.snapshot_id: one for one in metadata.snapshots}
    parents = {one.snapshot_id: one.parent_snapshot_id for one in metadata.snapshots}
    on_main = set(history(parents, head_id))
    picked = {summary_of(snapshots[one]).get(PICKED_FROM) for one in on_main}
    for one in staged:
        is_published = one.snapshot_id in on_main or str(one.snapshot_id) in picked
        if not is_published and _fits(one, head_id, on_main):
            why = f"snapshot {one.snapshot_id} is staged, and could not be published any more"
            yield Unpublished(why, one.timestamp_ms)


def _goes_on_from_main(newest: int, parents: Mapping[int, int | None], known: dict[int, bool]) -> bool:
    """Whether the head of `main` lies behind a snapshot; `known` says it of those that were passed, so each is passed once."""
    passed = list(takewhile(lambda one: one not in known, history(parents, newest)))
    behind = parents[passed[-1]] if passed else newest
    goes_on = known.get(behind, False) if behind is not None else False
    known |= dict.fromkeys(passed, goes_on)
    return goes_on


def _is_bound_to_main(snapshot: Snapshot) -> bool:
    return STAGED_AS in summary_of(snapshot) and operation_of(snapshot) != "append"


def _fits(staged: Snapshot, head_id: int, on_main: Collection[int]) -> bool:
    """Whether it can be published as `main` is now."""
    if summary_of(staged).get(REPLACES_PARTITIONS, "").lower() == "true":
        return staged.parent_snapshot_id in on_main
    return staged.parent_snapshot_id == head_id
