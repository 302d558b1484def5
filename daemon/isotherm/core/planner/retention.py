"""Which snapshots nobody needs any more."""

from isotherm.core.planner.view import View
from isotherm.core.policy.policy import Expire


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
        if snapshot.is_pinned:
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
