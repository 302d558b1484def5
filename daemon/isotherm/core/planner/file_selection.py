"""Which files a compaction takes, and what it makes of a partition: sums by size bucket, no file by name.

Sizes are those of `size_bucket`, so that what is planned here and what is bound to files later is the same to the byte.
"""

import math
from collections.abc import Mapping
from dataclasses import replace

from isotherm.core.model.decisions import COMMIT_BYTES
from isotherm.core.model.files import (
    NAMED_BY_PATH,
    NO_FILES,
    FileKind,
    FileStats,
    bucket_bounds,
    size_bucket,
    total,
)
from isotherm.core.model.job_limits import MAX_JOB_FILES, MERGED_FILE_BYTES, keys_bytes
from isotherm.core.model.jobs import Take
from isotherm.core.partition_state import PartitionState

SMALL = 0.75
"""A file below this part of the target is small: Iceberg's own `min-file-size-bytes` (its 180 % has no use here,
files that are too large are not split)."""

OPEN_BYTES = 4 * 1024**2
"""What it costs a reader to open a file, in bytes: Spark's own `spark.sql.files.openCostInBytes`."""


MERGED_FROM_BYTES = COMMIT_BYTES
"""Where the data of a partition takes less, deletes are applied rather than merged: a job costs as much by itself."""


def tier(
    data: Mapping[int, FileStats], target_bytes: int, *, only_worth_it: bool = False
) -> tuple[int, FileStats]:
    """The small files that are worth rewriting together, and the size below which they lie.

    A file joins once all that is below it has its size. So a row is rewritten about once for each doubling of the file
    that it lies in, however many crumbs come after it. Whoever is larger than all crumbs together waits for more.

    With `only_worth_it`, crumbs do not wait for files that are nearly large enough, and would make no job worth it.
    """
    best, below_bytes, sum_ = NO_FILES, 0, NO_FILES
    for bucket, stats in sorted(data.items()):
        end_bytes = bucket_bounds(bucket)[1]
        if end_bytes > SMALL * target_bytes:
            break
        sum_ += stats
        if size_bucket(sum_.bytes - stats.bytes // max(stats.files, 1)) < bucket and best:
            continue
        if only_worth_it and best.files > 1 and gain(best, target_bytes) >= 1 > gain(sum_, target_bytes):
            continue
        best, below_bytes = sum_, end_bytes
    return below_bytes, best


def tier_of_deletes(partition: PartitionState, most: int) -> int | None:
    """The size below which position-delete files are worth merging. None: all of them are.

    As with data, so each row is read and written once for each doubling of its file, and not whenever new ones are
    many. What stays is a handful of files, of which each is larger than all below it. Where so few would still be too
    many, all are merged. A file that is as large as merged ones become stays for good.
    """
    files = partition.deletes.get(FileKind.POSITION_DELETES, NO_FILES).files
    below_bytes, small = tier(partition.position_deletes, MERGED_FILE_BYTES)
    stay = files - small.files
    is_work = small.files > 1 or files < most
    is_enough = is_work and stay + outputs(small.bytes, MERGED_FILE_BYTES) < most
    return below_bytes if stay and is_enough else None


def fewer_deletes(partition: PartitionState, below_bytes: int | None) -> int:
    """How many position-delete files fewer there are once those below a size are merged. None: all of them."""
    small = total(_small_deletes(partition, below_bytes).values())
    return small.files - outputs(small.bytes, MERGED_FILE_BYTES)


def outputs(size_bytes: int, target_bytes: int) -> int:
    """Into how many files an executor writes so many bytes."""
    return max(1, round(size_bytes / target_bytes))


def gain(small: FileStats, target_bytes: int) -> float:
    """Files less after a rewrite, for each file of the target size that it reads. Below 1 they are large enough."""
    fewer = small.files - outputs(small.bytes, target_bytes) if small.files > 1 else 0
    return fewer * target_bytes / max(small.bytes, 1)


def taken(partition: PartitionState, take: Take) -> FileStats:
    """What a job would read: data files, and deletes where it is about them."""
    data, _, deletes = _work(partition, take)
    return _read(partition, take, data, deletes)


def saved_bytes(partition: PartitionState, take: Take, target_bytes: int) -> int:
    """What a job saves whoever reads the whole partition: files to open, and rows that are read in vain."""
    return _saved_bytes(*_work(partition, take), target_bytes)


def taken_and_saved_bytes(partition: PartitionState, take: Take, target_bytes: int) -> tuple[FileStats, int]:
    """Both, because the planner asks for both each time."""
    data, applied, deletes = _work(partition, take)
    read = _read(partition, take, data, deletes)
    saved = _saved_bytes(data, applied, deletes, target_bytes)
    if take.output_spec_id is None:
        return read, saved
    return read, max(saved, read.files * OPEN_BYTES)  # who reads another time opens none of them any more


def _work(partition: PartitionState, take: Take) -> tuple[FileStats, FileStats, FileStats]:
    """Data files that a job reads, deletes that it applies, and all deletes that it reads."""
    data = total(_selected(partition, take).values())
    if not take.is_about_deletes:  # as nearly always
        return data, NO_FILES, NO_FILES
    applied = total(_applied(partition, take, data).values())
    return data, applied, applied + _merged(partition, take)


def _read(partition: PartitionState, take: Take, data: FileStats, deletes: FileStats) -> FileStats:
    """All that a job reads. With a part of the data every delete file may have to be read, though few leave."""
    if not take.is_about_deletes:
        return data
    read = data + deletes + _looked_through(partition, take, data)
    return replace(read, files=data.files + partition.deletes_total.files) if take.with_deletes else read


def _saved_bytes(data: FileStats, applied: FileStats, deletes: FileStats, target_bytes: int) -> int:
    fewer = data.files - outputs(data.bytes, target_bytes) if data else 0
    merged = deletes.files - applied.files
    made = outputs(deletes.bytes - applied.bytes, MERGED_FILE_BYTES)
    fewer += applied.files + max(merged - made, 0)
    in_vain = min(applied.rows, data.rows) * data.bytes // max(data.rows, 1)
    return max(fewer, 0) * OPEN_BYTES + in_vain + applied.bytes


def rewritten(partition: PartitionState, take: Take, target_bytes: int) -> PartitionState:
    """The partition after the job. Its deletes are spread evenly over its files: nothing better is known here."""
    selected = _selected(partition, take)
    done = total(selected.values())
    if _merged(partition, take):
        partition = _with_merged(partition, take)
    if not done:
        return partition
    applied = _applied(partition, take, done)
    data = {
        bucket: left
        for bucket, stats in partition.data.items()
        if (left := stats - selected.get(bucket, NO_FILES))
    }
    rows = max(done.rows - sum(applied.get(kind, NO_FILES).rows for kind in NAMED_BY_PATH), 0)
    if rows:
        size_bytes = done.bytes * rows // max(done.rows, 1)
        files = outputs(size_bytes, target_bytes)
        bucket = size_bucket(size_bytes // files)
        data[bucket] = data.get(bucket, NO_FILES) + FileStats(files, rows, size_bytes)
    if not applied:
        return replace(partition, data=data)
    stay = {kind: stats - applied.get(kind, NO_FILES) for kind, stats in partition.deletes.items()}
    deletes = {kind: stats for kind, stats in stay.items() if stats}
    return replace(partition, data=data, deletes=deletes, delete_sizes={})


def _selected(partition: PartitionState, take: Take) -> dict[int, FileStats]:
    """The data files by size bucket."""
    if take.with_deletes:
        return _some_of_all(partition, _share(partition, take))
    left_bytes, least, selected = take.at_most_bytes, 2, {}
    left = None if left_bytes is None else MAX_JOB_FILES
    if left_bytes is not None and take.is_about_deletes:
        beside = _merged(partition, take) + _looked_through(partition, take, NO_FILES)
        left_bytes = max(left_bytes - beside.bytes, 0)
    data = partition.data if take.through_number is None else partition.came_by(take.through_number)
    for bucket, stats in sorted(data.items()):
        if bucket_bounds(bucket)[1] > take.below_bytes:
            break
        fit = stats.files if left_bytes is None else left_bytes * stats.files // max(stats.bytes, 1)
        files = min(stats.files, max(fit, least), stats.files if left is None else left)
        if files <= 0:
            break
        selected[bucket] = _part(stats, files)
        least -= files
        left = None if left is None else left - files
        left_bytes = None if left_bytes is None else left_bytes - selected[bucket].bytes
    return selected


def _some_of_all(partition: PartitionState, share: float) -> dict[int, FileStats]:
    """A share of the files of each size: which of them deletes name is not known here. At least one large file."""
    if share >= 1:
        return dict(partition.data)
    some = {bucket: int(stats.files * share) for bucket, stats in partition.data.items()}
    left_bytes = share * partition.data_total.bytes
    left_bytes -= sum(_part(partition.data[bucket], files).bytes for bucket, files in some.items())
    for bucket, stats in sorted(partition.data.items(), reverse=True):
        if (mean_bytes := stats.bytes // stats.files) <= left_bytes and some[bucket] < stats.files:
            some[bucket] += 1
            left_bytes -= mean_bytes
    selected = {bucket: _part(partition.data[bucket], files) for bucket, files in some.items() if files}
    if partition.data and 2 * total(selected.values()).bytes < share * partition.data_total.bytes:
        most = max(partition.data, key=lambda bucket: (partition.data[bucket].bytes, bucket))
        selected[most] = _part(partition.data[most], some[most] + 1)
    return selected


def _share(partition: PartitionState, take: Take) -> float:
    """Which part of a partition one job may take that is about its deletes; they are read too."""
    if take.at_most_bytes is None:
        return 1.0
    wanted_bytes = partition.data_total.bytes + partition.deletes_total.bytes
    of_files = MAX_JOB_FILES / max(partition.data_total.files, 1)
    return min(take.at_most_bytes / max(wanted_bytes, 1), of_files, 1.0)


def _applied(partition: PartitionState, take: Take, done: FileStats) -> dict[FileKind, FileStats]:
    """The deletes that are gone once these data files are rewritten: of a part, their part."""
    if not take.with_deletes:
        return {}
    data = partition.data_total
    if done.files >= data.files:
        return dict(partition.deletes)
    applied, rows_left = {}, done.rows
    for kind, stats in partition.deletes.items():
        share = done.bytes / max(data.bytes, 1)
        rows = min(max(int(stats.rows * share), 1), stats.rows - 1, rows_left)
        files = min(math.ceil(stats.files * share), stats.files - 1)
        # The last one goes as a whole: nothing may be left that no part ever reaches.
        is_last = rows <= 0 and files <= 0
        applied[kind] = stats if is_last else FileStats(files, max(rows, 0), int(stats.bytes * share))
        rows_left -= applied[kind].rows if kind in NAMED_BY_PATH else 0
    return applied


def _looked_through(partition: PartitionState, take: Take, data: FileStats) -> FileStats:
    """The keys of the data in which a job looks for rows that equality deletes name, beside what it rewrites."""
    if not take.converts_equality:
        return NO_FILES
    stay = partition.data_total - data
    return replace(stay, bytes=keys_bytes(stay.rows, stay.bytes))


def _merged(partition: PartitionState, take: Take) -> FileStats:
    """The deletes of which few files are made."""
    if not (take.merges_deletes or take.converts_equality):
        return NO_FILES
    return _merged_positions(partition, take) + _converted(partition, take)


def _converted(partition: PartitionState, take: Take) -> FileStats:
    """The equality deletes among them."""
    return partition.deletes.get(FileKind.EQUALITY_DELETES, NO_FILES) if take.converts_equality else NO_FILES


def _merged_positions(partition: PartitionState, take: Take) -> FileStats:
    """The position deletes among them: as many as one job may read, and never one alone."""
    if not take.merges_deletes:
        return NO_FILES
    deletes = total(_small_deletes(partition, take.deletes_below_bytes).values())
    if deletes.files < 2:
        return NO_FILES
    if take.merged_bytes is None:
        return deletes
    fit = take.merged_bytes * deletes.files // max(deletes.bytes, 1)
    return _part(deletes, min(max(fit, 2), deletes.files, MAX_JOB_FILES))


def _small_deletes(partition: PartitionState, below_bytes: int | None) -> Mapping[int, FileStats]:
    """The position deletes that are small enough to be merged, by size bucket."""
    sizes = partition.position_deletes
    if below_bytes is None:
        return sizes
    return {bucket: stats for bucket, stats in sizes.items() if bucket_bounds(bucket)[1] <= below_bytes}


def _with_merged(partition: PartitionState, take: Take) -> PartitionState:
    """The partition once as few files as will do are made of some of its deletes."""
    merged, converted = _merged_positions(partition, take), _converted(partition, take)
    read = merged + converted
    files = outputs(read.bytes, MERGED_FILE_BYTES)
    made = FileStats(files, min(read.rows, partition.data_total.rows), read.bytes)
    left = partition.deletes.get(FileKind.POSITION_DELETES, NO_FILES) - merged + made
    going = _small_deletes(partition, take.deletes_below_bytes) if merged else {}
    sizes = {bucket: stats for bucket, stats in partition.position_deletes.items() if bucket not in going}
    # Of a part nobody knows which files it is made of, so all that is left counts as of its mean size.
    bucket = size_bucket(made.bytes // files)
    sizes = {**sizes, bucket: sizes.get(bucket, NO_FILES) + made} if total(going.values()) == merged else {}
    deletes = {**partition.deletes, FileKind.POSITION_DELETES: left}
    if converted:
        del deletes[FileKind.EQUALITY_DELETES]
    return replace(partition, deletes=deletes, delete_sizes=sizes)


def _part(stats: FileStats, files: int) -> FileStats:
    """So many of some files."""
    return FileStats(files, stats.rows * files // stats.files, stats.bytes * files // stats.files)
