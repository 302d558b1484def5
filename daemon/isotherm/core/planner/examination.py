"""What a table suffers from, and what a policy would make of it: the planner on its own simulated results.

For whoever looks at a table that no daemon follows. What the policy would do at once is counted, and what it would have
done once every partition has been left alone: what is hot today is cold some day.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

from isotherm.contract.identity import PartitionKey
from isotherm.core.model.decisions import Plan, Verdict
from isotherm.core.model.files import FileStats, bucket_bounds, total
from isotherm.core.partition_state import PartitionState
from isotherm.core.partitions import time_span
from isotherm.core.planner.backlog import Backlog, done
from isotherm.core.planner.expirable import expirable
from isotherm.core.planner.plan import plan
from isotherm.core.planner.view import View
from isotherm.core.policy.policy import Policy, Work
from isotherm.core.units import DAY_MS

LEFT_ALONE_MS = 400 * DAY_MS
"""Whatever its time, a partition that was left alone for so long is cold."""


@dataclass(frozen=True, slots=True)
class Gain:
    """What comes of compaction, and what it costs."""

    files: int
    """Data and delete files that a full scan opens afterwards."""
    work: Backlog


@dataclass(frozen=True, slots=True)
class Examination:
    """One table, as it is and as a policy would have it."""

    partitions: int
    data: FileStats
    deletes: FileStats
    sizes: tuple[tuple[int, int], ...]
    """Of the data files, by the size class that they fall into: its upper bound in bytes, and how many."""
    verdicts: Mapping[Verdict, int]
    """How many partitions have which."""
    manifests: int
    metadata_bytes: int
    """The size of its metadata.json. Each commit writes it anew."""
    snapshots: int
    may_expire: int
    at_once: Gain
    in_the_end: Gain
    """Once nobody has written to any of its partitions for a year."""
    never_cold: int = 0
    """Partitions without a time of their own that have been written for a day: they gain nothing by waiting."""
    never_cold_files: int = 0
    """Files that these have too many."""

    @property
    def files(self) -> int:
        """Data and delete files that a full scan opens today."""
        return self.data.files + self.deletes.files

    @property
    def spared(self) -> int:
        """Files that a full scan need not open, in the end."""
        return self.files - self.in_the_end.files

    @property
    def suffers(self) -> int:
        """How much its readers suffer: by files that are too many, or by deletes of files that are not."""
        return max(self.spared, self.in_the_end.work.files) + self.never_cold_files


def examined(view: View, policy: Policy, now_ms: int) -> tuple[Examination, Plan]:
    """Examine a table, of which the view has all partitions and the log of snapshots; with what would be done now."""
    planned = plan(view, policy, now_ms)
    data = replace(view, snapshots=None)
    bare = policy.model_copy(update={"work": Work(schedules=policy.work.schedules, tz=policy.work.tz)})
    endless = _endless(view, planned, now_ms)
    rest = replace(data, partitions={key: one for key, one in view.partitions.items() if key not in endless})
    left = total(one.data_total + one.deletes_total for one in endless.values()).files
    in_the_end = _gain(rest, bare, now_ms + LEFT_ALONE_MS)
    were_they_cold = (
        _gain(replace(data, partitions=endless), bare, now_ms + LEFT_ALONE_MS) if endless else None
    )
    sizes: Counter[int] = Counter()
    for partition in view.partitions.values():
        sizes.update({bucket_bounds(bucket)[1]: stats.files for bucket, stats in partition.data.items()})
    examination = Examination(
        partitions=len(view.partitions),
        data=total(one.data_total for one in view.partitions.values()),
        deletes=total(one.deletes_total for one in view.partitions.values()),
        sizes=tuple(sorted(sizes.items())),
        verdicts=dict(Counter(decision.verdict for decision in planned.of_partitions)),
        manifests=view.facts.manifests,
        metadata_bytes=view.facts.metadata_file_bytes,
        snapshots=len(view.snapshots or ()) + len(view.astray),
        may_expire=len(expirable(view, policy.expire, now_ms)[0]) if policy.expire.enabled else 0,
        at_once=_gain(data, policy, now_ms),
        in_the_end=replace(in_the_end, files=in_the_end.files + left),
        never_cold=len(endless),
        never_cold_files=0 if were_they_cold is None else left - were_they_cold.files,
    )
    return examination, planned


def _endless(view: View, planned: Plan, now_ms: int) -> dict[PartitionKey, PartitionState]:
    """The partitions that are hot, have no time that could be over, and belong to a table that is written for a day."""
    began_ms = min((one.committed_at_ms for one in view.snapshots or ()), default=now_ms)
    if now_ms - began_ms < DAY_MS:
        return {}
    return {
        key: view.partitions[key]
        for decision in planned.of_partitions
        if decision.verdict is Verdict.HOT
        and (key := decision.partition) is not None
        and time_span(key, view.around.fields) is None
    }


def _gain(view: View, policy: Policy, now_ms: int) -> Gain:
    work, left = done(view, policy, now_ms)
    files = total(one.data_total + one.deletes_total for one in left.partitions.values()).files
    return Gain(files, work)
