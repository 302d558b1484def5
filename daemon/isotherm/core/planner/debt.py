"""What a partition costs its readers for want of maintenance, in the terms of a policy.

There are two works, decided apart, and each takes what it needs: files that are too small, and delete files. Many delete
rows are applied to their data. Many delete files of few rows become one file of position deletes, and their data is left
as it is. The score is debt divided by its threshold; 1.0 or more is due, and a job brings it below 1.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

from isotherm.core.model.files import FileKind, FileStats
from isotherm.core.model.job_limits import MAX_JOB_OPENS, MERGED_FILE_BYTES, keys_bytes
from isotherm.core.model.jobs import Take
from isotherm.core.model.tables import WITH_ROW_IDS
from isotherm.core.partition_state import PartitionState
from isotherm.core.planner.file_selection import (
    MERGED_FROM_BYTES,
    SMALL,
    fewer_deletes,
    gain,
    outputs,
    tier,
    tier_of_deletes,
)
from isotherm.core.policy.cold_after import LEARNED
from isotherm.core.policy.learned_counts import DELETES_ALONE, DELETES_LEFT, enough_deletes, enough_files
from isotherm.core.policy.policy import Compact
from isotherm.core.units import DAY_MS, size_text

DELETE_RATIO = "compact.max_delete_ratio"
POSITION_DELETES = "compact.max_position_deletes"
EQUALITY_DELETES = "compact.max_equality_deletes"
OUTPUT_SPEC = "compact.output_spec"

SETTLED_AFTER_MS = 7 * DAY_MS
"""Who wrote to a partition of time last so long ago does not come back, as a rule: a mirror's orders are closed by then. What
is there is read as it is for ever, so less is enough for a job. A week shows weekly jobs, too."""

SPARED = 0.5
"""A data file stays where less than this part of what is due for a partition is deleted in it. Half, so that a partition of
such files is not due again with the next few rows."""

MERGED_ALONG = 0.1
"""From this part of its threshold on, deletes are merged by a job that rewrites small files anyway."""


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
    settles_at_ms: int | None = None
    """From when on less is enough for a job, if nobody writes before. None where that changes nothing."""
    can_merge: bool = False
    """Whether merging position-delete files brings their number below its threshold."""
    merge_below_bytes: int | None = None
    """Those that are worth merging lie below this size. None: all do."""
    is_light: bool = False
    """Whether the partition holds so little that deletes are applied as cheaply as they are merged."""
    converted_bytes: int | None = None
    """What is read to make position deletes of all equality deletes, or None where that would not be the end of them."""
    converted_score: float = 0.0
    """The score of all delete rows at the most, once they are."""
    spared_ratio: float = 0.0
    """Files of fewer deleted rows may stay where deleted rows are what is due: then the partition is due no more."""
    moves: Take | None = None
    """What is to be written in the table's current partition spec: then nothing else is done."""

    def moving(self, take: Take, why: str) -> "Debt":
        """The same where all of it lies in an older spec, which speaks: whatever else is due is done with it."""
        trigger = Trigger(
            OUTPUT_SPEC, max(self.score, 1.0), f"it lies in an older partition spec, and goes {why}"
        )
        return replace(self, of_files=(trigger, *self.of_files), moves=take)

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
        return bool(self.of_deletes) or self.small_files > 1 or self.moves is not None

    def take(self, threshold: float, at_most_bytes: int | None) -> Take:
        """What a job would take: each work that reaches the threshold, and if none does the one that speaks."""
        if self.moves is not None:
            return replace(self.moves, at_most_bytes=at_most_bytes)
        speaks = min(threshold, self.score)
        takes_files = self.small_files > 1 and self.of_files[0].score >= speaks
        # A job that is there anyway takes them along, where that takes some requests from each reader.
        along = MERGED_ALONG if takes_files else speaks
        deletes = {
            trigger.option
            for trigger in self.of_deletes
            if trigger.score >= (along if self.is_light and trigger.option == POSITION_DELETES else speaks)
        }
        cheap = set() if self.is_light else set(self._without_data(threshold, at_most_bytes))
        applies = bool(deletes - cheap)
        converts = EQUALITY_DELETES in deletes and not applies
        if converts and self._fills(at_most_bytes):
            takes_files = False
        merges = not (applies or converts) and POSITION_DELETES in cheap and self._merges(along)
        return Take(
            below_bytes=self.below_bytes if takes_files else 0,
            with_deletes=applies,
            spared_ratio=min(speaks, 1.0) * self.spared_ratio
            if applies and deletes - cheap == {DELETE_RATIO}
            else 0.0,
            merges_deletes=converts or merges,
            deletes_below_bytes=self.merge_below_bytes if merges else None,
            converts_equality=converts,
            at_most_bytes=at_most_bytes,
        )

    def files_alone(self, threshold: float, at_most_bytes: int | None) -> Take | None:
        """What a job would take of the small files, where they are due by themselves: deletes may not fit into a job."""
        if self.moves is not None or self.small_files < 2 or self.of_files[0].score < threshold:
            return None
        return Take(below_bytes=self.below_bytes, at_most_bytes=at_most_bytes)

    def _fills(self, at_most_bytes: int | None) -> bool:
        """Whether no two small files fit into a job beside the making of position deletes of equality deletes."""
        beside_bytes = (self.converted_bytes or 0) + 2 * self.below_bytes
        return at_most_bytes is not None and beside_bytes > at_most_bytes

    def _without_data(self, threshold: float, at_most_bytes: int | None) -> Iterable[str]:
        """The deletes of which fewer are left after a job that rewrites no data."""
        if self.can_merge:
            yield POSITION_DELETES
        read_bytes = self.converted_bytes
        fits = read_bytes is not None and (at_most_bytes is None or read_bytes <= at_most_bytes)
        # Under a schedule less is due: what is made of them would be applied by the next job.
        if fits and self.converted_score < threshold:
            yield EQUALITY_DELETES

    def merge(self, at_most_bytes: int | None) -> Take | None:
        """What a job would take that merges deletes and rewrites no data, if they are due by themselves."""
        if self.moves is not None or not self.can_merge or not self._merges(1.0):
            return None
        return Take(
            merges_deletes=True,
            deletes_below_bytes=self.merge_below_bytes,
            at_most_bytes=at_most_bytes,
        )

    @property
    def why_merge(self) -> str:
        """What the trigger says by which deletes are merged."""
        return next(one.why for one in self.of_deletes if one.option == POSITION_DELETES)

    def _merges(self, least: float) -> bool:
        return any(one.score >= least for one in self.of_deletes if one.option == POSITION_DELETES)


def debt(
    partition: PartitionState,
    compact: Compact,
    *,
    has_time: bool = True,
    is_whole_interval: bool = True,
    format_version: int = 2,
    now_ms: int = 0,
) -> Debt:
    """The partition's debt: the trigger with the highest score speaks.

    Args:
        partition: its state.
        compact: the policy.
        has_time: whether the partition is about a time, so that one day nobody writes to it any more.
        is_whole_interval: whether it is about nothing else. Where an interval has many partitions, most are tiny, and each
            job is a commit: more of ours than of its writers'.
        format_version: of its table. From 3 on no new position-delete file may be written, so deletes are only applied.
        now_ms: tells whether that day has come. Without it, it has not.
    """
    target = int(compact.target_file_size)
    settles_ms = _settles_at_ms(partition, now_ms) if has_time and is_whole_interval else None
    is_settled = settles_ms is not None and settles_ms <= now_ms
    later_ms = None if is_settled else settles_ms
    # A number that somebody has written holds as it stands.
    is_learned = compact.min_files == LEARNED
    below_bytes, small = tier(partition.data, target, only_worth_it=is_learned)
    is_late = is_settled or (has_time and _came_late(partition, target))
    least = enough_files(compact.min_files, is_late=is_late)
    of_files = _file_triggers(partition, compact, small, least)
    is_light = partition.data_total.bytes <= MERGED_FROM_BYTES
    if not partition.deletes:
        later_ms = later_ms if small.files > 1 else None
        return Debt(of_files, (), below_bytes, small.files, later_ms, is_light=is_light)
    writes_positions = format_version < WITH_ROW_IDS
    most = enough_deletes(compact.max_position_deletes)
    if writes_positions:
        most = _most_positions(partition, compact, target, is_settled=is_settled)
    of_deletes = list(_delete_triggers(partition, compact, most)) if partition.has_deletes else []
    can_merge = writes_positions and _can_merge(partition, most)
    return Debt(
        of_files,
        _highest_first(of_deletes),
        below_bytes,
        small.files,
        later_ms,
        can_merge,
        tier_of_deletes(partition, most) if can_merge else None,
        is_light,
        _converted_bytes(partition, compact) if writes_positions else None,
        _delete_rows(partition) / max(partition.data_total.rows, 1) / compact.max_delete_ratio,
        compact.max_delete_ratio * SPARED,
    )


def _file_triggers(
    partition: PartitionState, compact: Compact, small: FileStats, least: int
) -> tuple[Trigger, ...]:
    """The triggers of small files, of which so many are enough."""
    target, is_learned = int(compact.target_file_size), compact.min_files == LEARNED
    # One file alone is no work, whatever a schedule says.
    many = small.files if small.files > 1 else 0
    worth, little = gain(small, target), _too_few(small, target)
    return _highest_first(
        [
            Trigger(
                "compact.min_files",
                _if_worth(many / least, worth) if is_learned else many / least,
                f"{small.files} of {least}{little if is_learned else ''} files below {size_text(SMALL * target)}"
                f"{_of_others(partition, small, target)}",
            ),
            Trigger(
                "compact.fill_files",
                _if_worth(min(many / compact.fill_files, small.bytes / target), worth),
                f"{small.files} small files hold {size_text(small.bytes)} of {size_text(target)} "
                f"(at {compact.fill_files} that fill one{little})",
            ),
        ]
    )


def _settles_at_ms(partition: PartitionState, now_ms: int) -> int | None:
    """When a partition of time has settled, if nobody writes to it before. None where nobody knows when it was written."""
    written_ms = partition.as_of(now_ms).last_write_at_ms
    return None if written_ms is None else written_ms + SETTLED_AFTER_MS


def _if_worth(score: float, worth: float) -> float:
    """A score that is below 1 where a job would gain too little.

    How much it gains beyond that is no measure of what is owed: files of 16 MiB gain seven times what is asked at the
    most, however many they are, so their score would never end a rest.
    """
    return score if worth >= 1 else min(score, worth)


def _came_late(partition: PartitionState, target: int) -> bool:
    """Whether small files were appended beside what is large enough: to what we compacted, or was written so."""
    if not partition.arrivals or partition.deletes:
        return False
    if partition.compacted_at_ms is not None:
        return True
    return partition.smaller_than(SMALL * target).files < partition.data_total.files


def _most_positions(partition: PartitionState, compact: Compact, target: int, *, is_settled: bool) -> int:
    """At so many position-delete files something is due.

    A MERGE or an upsert brings rows with its deletes, and its deletes are merged along once these are due. Who only deletes
    brings none, so nothing would ever take them along. Unless each delete file names one data file, as Spark writes them:
    then a reader of that file opens one, a later one takes its place, and merged it would be opened by all readers.
    """
    deletes = partition.deletes.get(FileKind.POSITION_DELETES, FileStats())
    small, data = partition.smaller_than(SMALL * target).files, partition.data_total
    made = 2 * outputs(deletes.bytes, MERGED_FILE_BYTES)
    came_alone, are_few_then = deletes.files >= 2 * small, made <= DELETES_ALONE
    are_shared = deletes.files > data.files
    are_alone = came_alone and are_few_then and are_shared
    # Small files count as one: whether a job has merged them makes no difference, or the next one would be for deletes.
    are_left = is_settled and made <= DELETES_LEFT and deletes.files > data.files - max(small - 1, 0)
    return enough_deletes(compact.max_position_deletes, are_alone=are_alone, are_left=are_left)


def _can_merge(partition: PartitionState, most: int) -> bool:
    """Whether merging position-delete files brings their number below its threshold."""
    deletes = partition.deletes.get(FileKind.POSITION_DELETES, FileStats())
    return deletes.files > 1 and outputs(deletes.bytes, MERGED_FILE_BYTES) < most


def _converted_bytes(partition: PartitionState, compact: Compact) -> int | None:
    """What is read to make position deletes of the equality deletes, or None where these would be too many at once.

    Each of their rows may delete one row; a key that is new deletes none.
    """
    equality = partition.deletes.get(FileKind.EQUALITY_DELETES, FileStats())
    positions = partition.deletes.get(FileKind.POSITION_DELETES, FileStats())
    rows, most = _delete_rows(partition), compact.max_delete_ratio * partition.data_total.rows
    # All of them are merged with it, where there are two.
    files = 1 + outputs(equality.bytes + positions.bytes, MERGED_FILE_BYTES)
    if not equality or rows >= most or files >= enough_deletes(compact.max_position_deletes):
        return None
    data = partition.data_total
    if data.files + equality.files + positions.files > MAX_JOB_OPENS:
        return None
    return keys_bytes(data.rows, data.bytes) + equality.bytes + positions.bytes


def _delete_rows(partition: PartitionState) -> int:
    """Rows of deletes of every kind."""
    return partition.deletes_total.rows


def _highest_first(triggers: Iterable[Trigger]) -> tuple[Trigger, ...]:
    return tuple(sorted(triggers, key=lambda trigger: -trigger.score))


def _too_few(small: FileStats, target: int) -> str:
    """That they are nearly large enough, so that rewriting them would leave too few files less."""
    if gain(small, target) >= 1 or small.files < 2:
        return ""
    fewer = small.files - outputs(small.bytes, target)
    return f" and {math.ceil(small.bytes / target)} files less; rewriting them would leave {fewer} less"


def _of_others(partition: PartitionState, tier_: FileStats, target: int) -> str:
    """That there are small files which are larger than all smaller ones together, and wait."""
    waiting = partition.smaller_than(SMALL * target).files - tier_.files
    return f" ({waiting} larger ones wait for more)" if waiting else ""


def _delete_triggers(partition: PartitionState, compact: Compact, most_positions: int) -> Iterable[Trigger]:
    rows = partition.data_total.rows
    positions = partition.deletes.get(FileKind.POSITION_DELETES, FileStats())
    vectors = partition.deletes.get(FileKind.DELETION_VECTORS, FileStats())
    equality = partition.deletes.get(FileKind.EQUALITY_DELETES, FileStats())
    if positions or vectors:
        deleted, limit = positions.rows + vectors.rows, compact.max_delete_ratio
        why = f"{deleted} delete rows on {rows} rows, limit {100 * limit:.3g}%"
        yield Trigger(DELETE_RATIO, deleted / max(rows, 1) / limit, why)
    if positions:
        why = f"{positions.files} of {most_positions} position-delete files"
        score = positions.files / most_positions
        if score < 1 and fewer_deletes(partition, tier_of_deletes(partition, most_positions)) < 1:
            # They were merged before: whatever a schedule says, that is no work, nor is it worth rewriting their data.
            score, why = 0.0, f"{why}, as few as their size allows"
        yield Trigger(POSITION_DELETES, score, why)
    if equality:
        few = compact.max_equality_deletes
        why = f"{equality.files} of {few} equality-delete files, {equality.rows} rows in them"
        yield Trigger(EQUALITY_DELETES, equality.files / few, why)
    if vectors and (most := compact.max_deletion_vectors) is not None:
        why = f"{vectors.files} of {most} deletion vectors"
        yield Trigger("compact.max_deletion_vectors", vectors.files / most, why)
