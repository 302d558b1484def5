"""What a partition costs its readers for want of maintenance, in the terms of a policy.

The score is debt divided by its threshold; 1.0 or more is due, and a job brings it below 1.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from isotherm.core.model.files import FileKind, FileStats
from isotherm.core.policy.policy import Compact
from isotherm.core.state import PartitionState
from isotherm.core.units import size_text

SMALL = 0.75
"""A file below this part of the target is small: Iceberg's own `min-file-size-bytes` (its 180 % has no use here,
files that are too large are not split)."""


@dataclass(frozen=True, slots=True)
class Trigger:
    """One reason for which something may be due."""

    option: str
    """The field of the policy that holds its threshold: `compact.min_files`."""
    score: float
    why: str


@dataclass(frozen=True, slots=True)
class Debt:
    """What a partition costs its readers, in the terms of a policy."""

    triggers: tuple[Trigger, ...]
    """All of them, the one that speaks (with the highest score) first."""
    small: FileStats
    takes_deletes: bool
    taken: FileStats
    """What a job would read: the small files, or with deletes all of them and the deletes."""

    @property
    def score(self) -> float:
        """The highest score."""
        return self.triggers[0].score

    @property
    def why(self) -> str:
        """What the trigger with the highest score says."""
        return self.triggers[0].why

    @property
    def has_gain(self) -> bool:
        """Whether a job would leave fewer files or fewer deletes: never a job that changes nothing."""
        return self.takes_deletes or self.small.files > 1


def debt(partition: PartitionState, compact: Compact) -> Debt:
    """The partition's debt: the trigger with the highest score speaks."""
    data, small = partition.data_total, partition.smaller_than(SMALL * compact.target_file_size)
    target = size_text(compact.target_file_size)
    triggers = [
        Trigger(
            "compact.min_files",
            small.files / compact.min_files,
            f"{small.files} of {compact.min_files} files below {size_text(SMALL * compact.target_file_size)}",
        ),
        Trigger(
            "compact.fill_files",
            min(small.files / compact.fill_files, small.bytes / compact.target_file_size),
            f"{small.files} small files hold {size_text(small.bytes)} of {target} (at {compact.fill_files} that fill one)",
        ),
    ]
    if partition.has_deletes:
        triggers.extend(_delete_triggers(partition, data.rows, compact))
    triggers.sort(key=lambda trigger: (-trigger.score, trigger.option))
    taken = data + partition.deletes_total if partition.has_deletes else small
    return Debt(tuple(triggers), small, partition.has_deletes, taken)


def _delete_triggers(partition: PartitionState, rows: int, compact: Compact) -> Iterable[Trigger]:
    positions = partition.deletes.get(FileKind.POSITION_DELETES, FileStats())
    vectors = partition.deletes.get(FileKind.DELETION_VECTORS, FileStats())
    equality = partition.deletes.get(FileKind.EQUALITY_DELETES, FileStats())
    if positions or vectors:
        deleted, limit = positions.rows + vectors.rows, compact.max_delete_ratio
        why = f"{deleted} delete rows on {rows} rows, limit {limit:.0%}"
        yield Trigger("compact.max_delete_ratio", deleted / max(rows, 1) / limit, why)
    if equality:
        most = compact.max_equality_deletes
        why = f"{equality.files} of {most} equality-delete files, {equality.rows} rows in them"
        yield Trigger("compact.max_equality_deletes", equality.files / most, why)
    if vectors:
        most = compact.max_deletion_vectors
        why = f"{vectors.files} of {most} deletion vectors"
        yield Trigger("compact.max_deletion_vectors", vectors.files / most, why)
