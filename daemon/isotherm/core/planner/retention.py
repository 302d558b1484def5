"""Which snapshots nobody needs any more, and which the table's own branches and tags keep."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from isotherm.core.planner.view import View
from isotherm.core.policy.policy import Expire

FOREVER_MS = 2**62
"""Later than any clock."""


@dataclass(frozen=True, slots=True)
class Ref:
    """A branch or a tag, with what it states about its own history."""

    snapshot_id: int
    is_branch: bool
    min_snapshots: int | None = None
    """`min-snapshots-to-keep`, or None where the ref states nothing."""
    max_age_ms: int | None = None
    """`max-snapshot-age-ms`, or None where the ref states nothing."""


def kept_by_refs(
    refs: Iterable[Ref], parents: Mapping[int, int | None], committed_at_ms: Mapping[int, int]
) -> dict[int, int]:
    """Until when branches and tags keep snapshots, in milliseconds since the epoch, `FOREVER_MS` for always.

    By the specification's retention policy: a tag keeps its snapshot; a branch its head, the newest `min_snapshots` of
    its history, and what is younger than `max_age_ms`.
    """
    kept: dict[int, int] = {}
    for ref in refs:
        kept[ref.snapshot_id] = FOREVER_MS
        place, visited = 1, {ref.snapshot_id}
        current = parents.get(ref.snapshot_id) if ref.is_branch else None
        # Damaged metadata may lead in a circle.
        while current is not None and current in parents and current not in visited:
            visited.add(current)
            is_counted = ref.min_snapshots is not None and place < ref.min_snapshots
            until_ms = FOREVER_MS if is_counted else committed_at_ms[current] + (ref.max_age_ms or 0)
            if is_counted or ref.max_age_ms is not None:
                kept[current] = max(kept.get(current, 0), until_ms)
            current, place = parents[current], place + 1
    return kept


def expirable(view: View, expire: Expire, now_ms: int) -> tuple[tuple[int, ...], str]:
    """The snapshots of `main` that nobody needs any more, oldest first, and why others had to stay.

    Never: the head, the newest `keep_last`, those younger than `keep_for`, those that a tag or branch keeps, the base
    of a running job, what was not announced and consumed yet, and the newest snapshot that keeps a writer's place.
    """
    snapshots = view.snapshots or ()
    old = [
        snapshot
        for snapshot in snapshots[: max(len(snapshots) - expire.keep_last, 0)]
        if now_ms - snapshot.committed_at_ms >= expire.keep_for
    ]
    bases = {flight.base_snapshot_id for flight in view.flights}
    newest = {s.token: s.snapshot_id for s in snapshots if s.token}
    going: list[int] = []
    held: dict[str, int] = {}
    for snapshot in old:
        keeper = None
        if snapshot.is_pinned or snapshot.kept_until_ms > now_ms:
            keeper = "kept by tags or branches"
        elif snapshot.snapshot_id in bases:
            keeper = "read by a running job"
        elif (
            view.announced_sequence_number is None
            or snapshot.sequence_number > view.announced_sequence_number
        ):
            keeper = "not announced yet"
        elif newest.get(snapshot.token) == snapshot.snapshot_id:
            keeper = "keeping a writer's place"
        if keeper is None:
            going.append(snapshot.snapshot_id)
        else:
            held[keeper] = held.get(keeper, 0) + 1
    why = "".join(f", {count} {keeper}" for keeper, count in sorted(held.items()))
    return tuple(going), why
