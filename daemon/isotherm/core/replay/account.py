"""What a replay came to: the table at points of a timeline, the jobs that would have been, and the sum of it all."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import mean

from isotherm.contract.identity import PartitionKey
from isotherm.core.model.jobs import Take
from isotherm.core.partition_state import PartitionState


@dataclass(frozen=True, slots=True)
class Sample:
    """The table at one moment."""

    at_ms: int
    files: int
    small_files: int
    delete_rows: int
    snapshots: int
    score: float
    """The highest of any partition that is not hot."""
    rewritten_bytes: int
    """Since the beginning."""


@dataclass(frozen=True, slots=True)
class SimulatedJob:
    """One compaction that would have been."""

    partition: PartitionKey
    label: str
    started_at_ms: int
    ended_at_ms: int
    bytes: int
    files: int
    base_snapshot_id: int
    take: Take
    is_conflict: bool = False
    """A writer touched the partition before the job had ended: its work was thrown away."""

    @property
    def is_beside_appends(self) -> bool:
        """Whether it takes old files of a hot partition."""
        return self.take.through_number is not None


@dataclass(frozen=True, slots=True)
class Totals:
    """The sum of a replay."""

    jobs: int
    """Compactions that ended well."""
    conflicts: int
    wasted_bytes: int
    """Read by jobs that were thrown away, until then."""
    rewritten_bytes: int
    ingested_bytes: int
    write_amplification: float | None
    """(ingested + rewritten) / ingested, or None where nothing was ingested."""
    expiries: int
    expired_snapshots: int
    files: int
    """Data files at the end."""
    small_files: int
    delete_rows: int
    snapshots: int
    mean_files: float
    """Data files, averaged over time."""
    mean_delete_rows: float
    most_files: int
    """The most data files that any partition ever had."""
    mean_lag_ms: int | None
    """From due to done, on the average, or None where nothing was done."""
    longest_lag_ms: int | None
    still_due: int
    """Partitions that were due at the end."""


@dataclass(frozen=True, slots=True)
class Replayed:
    """What a policy would have made of a history."""

    totals: Totals
    samples: tuple[Sample, ...]
    jobs: tuple[SimulatedJob, ...]
    partitions: Mapping[PartitionKey, PartitionState]
    """What is there at the end."""


@dataclass(slots=True)
class Sums:
    """What adds up while it lives."""

    conflicts: int = 0
    wasted_bytes: int = 0
    rewritten_bytes: int = 0
    ingested_bytes: int = 0
    expiries: int = 0
    expired_snapshots: int = 0
    most_files: int = 0
    file_ms: int = 0
    """Data files times the milliseconds for which they were there."""
    delete_row_ms: int = 0
    lags_ms: list[int] = field(default_factory=list)

    def totals(self, jobs: int, last: Sample, passed_ms: int, still_due: int) -> Totals:
        """The sum of what was lived through.

        Args:
            jobs: compactions that ended well.
            last: the table at the end.
            passed_ms: how long it took.
            still_due: partitions that are due at the end.
        """
        written = self.ingested_bytes + self.rewritten_bytes
        return Totals(
            jobs=jobs,
            conflicts=self.conflicts,
            wasted_bytes=self.wasted_bytes,
            rewritten_bytes=self.rewritten_bytes,
            ingested_bytes=self.ingested_bytes,
            write_amplification=written / self.ingested_bytes if self.ingested_bytes else None,
            expiries=self.expiries,
            expired_snapshots=self.expired_snapshots,
            files=last.files,
            small_files=last.small_files,
            delete_rows=last.delete_rows,
            snapshots=last.snapshots,
            mean_files=self.file_ms / passed_ms,
            mean_delete_rows=self.delete_row_ms / passed_ms,
            most_files=self.most_files,
            mean_lag_ms=round(mean(self.lags_ms)) if self.lags_ms else None,
            longest_lag_ms=max(self.lags_ms, default=None),
            still_due=still_due,
        )
