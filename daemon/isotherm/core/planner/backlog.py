"""What a plan would lead to, without doing it: the planner on its own simulated results.

The backlog (what would be rewritten if everything that is due were done now) is measured this way, so there is one
definition of work to do.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from isotherm.core.model.decisions import Plan, Request
from isotherm.core.model.files import FileKind, FileStats, size_bucket
from isotherm.core.model.jobs import Action
from isotherm.core.planner.debt import SMALL
from isotherm.core.planner.plan import plan
from isotherm.core.planner.view import View
from isotherm.core.policy.policy import Policy
from isotherm.core.state import PartitionState

MAX_ROUNDS = 10
"""A plan that is still not done after so many rounds does not converge; by law one round is enough."""


@dataclass(frozen=True, slots=True)
class Backlog:
    """Work that is due, over one table."""

    jobs: int = 0
    files: int = 0
    bytes: int = 0
    rounds: int = 0


def backlog(view: View, policy: Policy | None, now_ms: int) -> Backlog:
    """All that is due now, done in simulation until nothing is left."""
    work = Backlog()
    for _ in range(MAX_ROUNDS):
        planned = plan(view, policy, now_ms)
        if not planned.requests or policy is None:
            return work
        work = Backlog(
            jobs=work.jobs + len(planned.requests),
            files=work.files
            + sum(r.decision.files for r in planned.requests if r.decision.action is Action.COMPACT),
            bytes=work.bytes + sum(r.decision.bytes for r in planned.requests),
            rounds=work.rounds + 1,
        )
        view = after(view, planned, policy)
    return work


def after(view: View, planned: Plan, policy: Policy) -> View:
    """The view as it would be, had every request of the plan been done."""
    for request in planned.requests:
        view = _done(view, request, policy)
    return view


def _done(view: View, request: Request, policy: Policy) -> View:
    if request.decision.action is Action.EXPIRE:
        going = set(request.snapshots)
        kept = tuple(s for s in view.snapshots or () if s.snapshot_id not in going)
        return replace(view, snapshots=kept, facts=replace(view.facts, snapshots=len(kept)))
    key = request.decision.partition
    assert key is not None  # noqa: S101 (what is done on the table as a whole is done above)
    compacted = compact(view.partitions[key], int(policy.compact.target_file_size))
    return replace(view, partitions={**view.partitions, key: compacted})


def compact(partition: PartitionState, target_bytes: int) -> PartitionState:
    """The partition after its small files, or with deletes all of its files, were rewritten.

    An executor writes `round(bytes / target)` files of equal size, at least one.
    """
    applies_deletes = partition.has_deletes
    small = partition.smaller_than(SMALL * target_bytes)
    taken = partition.data_total if applies_deletes else small
    stays: Mapping[int, FileStats] = (
        {}
        if applies_deletes
        else {b: s for b, s in partition.data.items() if not _is_small(b, partition, target_bytes)}
    )
    named = (FileKind.POSITION_DELETES, FileKind.DELETION_VECTORS)
    rows = max(taken.rows - sum(partition.deletes.get(kind, FileStats()).rows for kind in named), 0)
    data = dict(stays)
    if rows:
        files = max(1, round(taken.bytes / target_bytes))
        bucket = size_bucket(taken.bytes // files)
        data[bucket] = data.get(bucket, FileStats()) + FileStats(files, rows, taken.bytes)
    return replace(partition, data=data, deletes={} if applies_deletes else partition.deletes)


def _is_small(bucket: int, partition: PartitionState, target_bytes: int) -> bool:
    one = replace(partition, data={bucket: partition.data[bucket]})
    return bool(one.smaller_than(SMALL * target_bytes))
