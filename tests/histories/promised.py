"""Which snapshots, branches and tags had to stay: by the policy's words and the specification, and by no code of ours.

Also the places of writers, by what their sinks look for (`places`).
"""

from collections.abc import Iterator
from itertools import pairwise

from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot

from histories.places import FOR_MS, is_upsert_of_flink, needed

STAGED_FOR_MS = 86_400_000


def lost(
    before: TableMetadata, after: TableMetadata, now_ms: int, keep_last: int, keep_for_ms: int
) -> list[str]:
    """What is gone of a table, or moved, that had to stay until now. In words; empty where all is well."""
    return [
        *_refs(before, after, now_ms),
        *_snapshots(before, after, now_ms, keep_last, keep_for_ms),
        *_branches(before, after, now_ms),
        *_places(before, after, now_ms),
    ]


def _refs(before: TableMetadata, after: TableMetadata, now_ms: int) -> Iterator[str]:
    times = {one.snapshot_id: one.timestamp_ms for one in before.snapshots}
    left = {one.snapshot_id for one in after.snapshots}
    for name, ref in before.refs.items():
        age_ms = now_ms - times[ref.snapshot_id]
        is_over = name != "main" and ref.max_ref_age_ms is not None and age_ms > ref.max_ref_age_ms
        now = after.refs.get(name)
        if now is None and not is_over:
            yield f"{ref.snapshot_ref_type} {name} is gone"
        if now is not None and name != "main" and now != ref:
            yield f"{ref.snapshot_ref_type} {name} was {ref}, and is {now}"
        if now is not None and now.snapshot_id not in left:
            yield f"snapshot {now.snapshot_id} of {name} is gone"


def _snapshots(
    before: TableMetadata, after: TableMetadata, now_ms: int, keep_last: int, keep_for_ms: int
) -> Iterator[str]:
    main, is_there = history(before), {one.snapshot_id for one in after.snapshots}
    came = len({one.snapshot_id for one in history(after)} - {one.snapshot_id for one in before.snapshots})
    least, stay = min(keep_last, len(main) + came), len(history(after))
    if stay < least:
        yield f"{stay} snapshots of main are left, of {least} that had to stay"
    until_ms = {one.snapshot_id: later.timestamp_ms + keep_for_ms for later, one in pairwise(main)}
    for one in before.snapshots:
        if one.snapshot_id in is_there:
            continue
        is_staged = one.summary is not None and "wap.id" in one.summary.additional_properties
        alone_ms = one.timestamp_ms + (STAGED_FOR_MS if is_staged else keep_for_ms)
        if one is not (main[0] if main else None) and until_ms.get(one.snapshot_id, alone_ms) > now_ms:
            yield f"snapshot {one.snapshot_id} went too early"


def _branches(before: TableMetadata, after: TableMetadata, now_ms: int) -> Iterator[str]:
    """What lies behind a branch stays as it says itself, and what is not of `main` always."""
    of_main, is_there = (
        {one.snapshot_id for one in history(before)},
        {one.snapshot_id for one in after.snapshots},
    )
    for name, ref in before.refs.items():
        if ref.snapshot_ref_type != "branch" or name == "main" or name not in after.refs:
            continue
        for place, one in enumerate(history(before, ref.snapshot_id)):
            is_young = now_ms - one.timestamp_ms < (ref.max_snapshot_age_ms or 0)
            is_kept = place < (ref.min_snapshots_to_keep or 1) or is_young or one.snapshot_id not in of_main
            if is_kept and one.snapshot_id not in is_there:
                yield f"snapshot {one.snapshot_id}, {place} behind branch {name}, is gone"


def _places(before: TableMetadata, after: TableMetadata, now_ms: int) -> Iterator[str]:
    main, left = history(before), {one.snapshot_id for one in history(after)}
    for run, one in needed(main, now_ms):
        if one.snapshot_id not in left:
            yield f"the place of {run}, snapshot {one.snapshot_id}, is not found from the head on"
    upserts = [one for one in main if is_upsert_of_flink(one) and now_ms - one.timestamp_ms < FOR_MS]
    is_whole = bool(main) and main[-1].parent_snapshot_id is None
    gone = [one.snapshot_id for one in main if one.snapshot_id not in left]
    if before.format_version > 2 and is_whole and upserts and gone:
        yield f"snapshots {gone} are gone, and Flink's sink needs the whole history"


def history(metadata: TableMetadata, head: int | None = None) -> list[Snapshot]:
    """What `main`, or another head, has behind it, newest first, as far as it is retained."""
    by_id = {one.snapshot_id: one for one in metadata.snapshots}
    found, current = [], by_id.get(head or metadata.current_snapshot_id or 0)
    while current is not None:
        found.append(current)
        current = by_id.get(current.parent_snapshot_id or 0)
    return found
