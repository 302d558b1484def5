"""What a partition costs its readers for want of maintenance, in the terms of a policy.

There are two works, decided apart, and each takes what it needs: files that are too small, and delete files. The score
is debt divided by its threshold; 1.0 or more is due, and a job brings it below 1.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from isotherm.core.model.files import FileKind, FileStats
from isotherm.core.model.jobs import Take
from isotherm.core.planner.taking import SMALL, outputs, tier
from isotherm.core.policy.policy import Compact
from isotherm.core.state import PartitionState
from isotherm.core.units import size_text

FEWER_FILES_PER_GIB = 8
"""Files that are nearly large enough are left alone where rewriting a GiB of them leaves fewer than so many less."""

_GIB = 1024**3


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

    of_files: tuple[Trigger, ...]
    """About small files, the one with the highest score first."""
    of_deletes: tuple[Trigger, ...]
    """About delete files; none where there are none."""
    below_bytes: int
    """The small files that are worth rewriting together lie below this size."""
    small_files: int
    """So many."""

    @property
    def triggers(self) -> tuple[Trigger, ...]:
        """All of them, the one that speaks (with the highest score) first."""
        both = (*self.of_files, *self.of_deletes)
        return tuple(sorted(both, key=lambda trigger: -trigger.score))

    @property
    def score(self) -> float:
        """The highest score."""
        return self._highest.score

    @property
    def why(self) -> str:
        """What the trigger with the highest score says."""
        return self._highest.why

    @property
    def _highest(self) -> Trigger:
        files = self.of_files[0]
        return self.of_deletes[0] if self.of_deletes and self.of_deletes[0].score > files.score else files

    @property
    def has_gain(self) -> bool:
        """Whether a job would leave fewer files or fewer deletes: never a job that changes nothing."""
        return bool(self.of_deletes) or self.small_files > 1

    def take(self, threshold: float, at_most_bytes: int | None) -> Take:
        """What a job would take: each work that reaches the threshold, and if none does the one that speaks."""
        speaks = min(threshold, self.score)
        takes_files = self.small_files > 1 and self.of_files[0].score >= speaks
        takes_deletes = any(trigger.score >= speaks for trigger in self.of_deletes)
        return Take(self.below_bytes if takes_files else 0, takes_deletes, at_most_bytes)


def debt(partition: PartitionState, compact: Compact) -> Debt:
    """The partition's debt: the trigger with the highest score speaks."""
    target = int(compact.target_file_size)
    below_bytes, small = tier(partition.data, target)
    # One file alone is no work, whatever a schedule says.
    many = small.files if small.files > 1 else 0
    fewer = many - outputs(small.bytes, target) if many else 0
    fewer_a_gib = fewer * _GIB / max(small.bytes, 1)
    of_files = [
        Trigger(
            "compact.min_files",
            many / compact.min_files,
            f"{small.files} of {compact.min_files} files below {size_text(SMALL * target)}{_of_others(partition, small, target)}",
        ),
        Trigger(
            "compact.fill_files",
            min(
                many / compact.fill_files,
                small.bytes / target,
                fewer_a_gib / FEWER_FILES_PER_GIB,
            ),
            f"{small.files} small files hold {size_text(small.bytes)} of {size_text(target)} "
            f"(at {compact.fill_files} that fill one)",
        ),
    ]
    of_deletes = list(_delete_triggers(partition, compact)) if partition.has_deletes else []
    return Debt(_highest_first(of_files), _highest_first(of_deletes), below_bytes, small.files)


def _highest_first(triggers: Iterable[Trigger]) -> tuple[Trigger, ...]:
    return tuple(sorted(triggers, key=lambda trigger: -trigger.score))


def _of_others(partition: PartitionState, tier_: FileStats, target: int) -> str:
    """That there are small files which are larger than all smaller ones together, and wait."""
    waiting = partition.smaller_than(SMALL * target).files - tier_.files
    return f" ({waiting} larger ones wait for more)" if waiting else ""


def _delete_triggers(partition: PartitionState, compact: Compact) -> Iterable[Trigger]:
    rows = partition.data_total.rows
    positions = partition.deletes.get(FileKind.POSITION_DELETES, FileStats())
    vectors = partition.deletes.get(FileKind.DELETION_VECTORS, FileStats())
    equality = partition.deletes.get(FileKind.EQUALITY_DELETES, FileStats())
    if positions or vectors:
        deleted, limit = positions.rows + vectors.rows, compact.max_delete_ratio
        why = f"{deleted} delete rows on {rows} rows, limit {limit:.0%}"
        yield Trigger("compact.max_delete_ratio", deleted / max(rows, 1) / limit, why)
    if positions:
        most = compact.max_position_deletes
        why = f"{positions.files} of {most} position-delete files"
        yield Trigger("compact.max_position_deletes", positions.files / most, why)
    if equality:
        most = compact.max_equality_deletes
        why = f"{equality.files} of {most} equality-delete files, {equality.rows} rows in them"
        yield Trigger("compact.max_equality_deletes", equality.files / most, why)
    if vectors:
        most = compact.max_deletion_vectors
        why = f"{vectors.files} of {most} deletion vectors"
        yield Trigger("compact.max_deletion_vectors", vectors.files / most, why)
