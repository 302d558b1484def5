"""The files of a table: what kinds there are, how many of which size, and one of them by name."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar


class FileKind(StrEnum):
    """What a live file holds."""

    DATA = "data"
    POSITION_DELETES = "position_deletes"
    EQUALITY_DELETES = "equality_deletes"
    DELETION_VECTORS = "deletion_vectors"


NAMED_BY_PATH = (FileKind.POSITION_DELETES, FileKind.DELETION_VECTORS)
"""Deletes that say which rows of which data file: each row of them takes a row away."""

DELETE_KINDS = (FileKind.POSITION_DELETES, FileKind.EQUALITY_DELETES, FileKind.DELETION_VECTORS)


@dataclass(frozen=True, slots=True)
class FileStats:
    """How many files, the rows that they hold, and their bytes. Differences may be negative, states may not."""

    files: int = 0
    rows: int = 0
    bytes: int = 0

    def __add__(self, other: "FileStats") -> "FileStats":
        return FileStats(self.files + other.files, self.rows + other.rows, self.bytes + other.bytes)

    def __sub__(self, other: "FileStats") -> "FileStats":
        return FileStats(self.files - other.files, self.rows - other.rows, self.bytes - other.bytes)

    def __bool__(self) -> bool:
        return bool(self.files or self.rows or self.bytes)

    def holds(self, other: "FileStats") -> bool:
        """Whether all the others may be among these: it has as many files, rows and bytes at least."""
        return self.files >= other.files and self.rows >= other.rows and self.bytes >= other.bytes


NO_FILES = FileStats()

Part = TypeVar("Part", int, FileKind)
"""What files are told apart by: size buckets, or kinds."""


def summed(before: Mapping[Part, FileStats], delta: Mapping[Part, FileStats]) -> dict[Part, FileStats]:
    """Both, part by part, without those of which nothing is left."""
    sums = dict(before)
    for part, stats in delta.items():
        there = sums.get(part)
        sums[part] = stats if there is None else there + stats
    return {part: stats for part, stats in sums.items() if stats}


def total(stats: Iterable[FileStats]) -> FileStats:
    """The sum of some file statistics."""
    # A planner adds up several for each partition: one object, and not one for each part.
    parts = tuple(stats)
    if len(parts) == 1:  # as nearly always: files of a stream are of one size
        return parts[0]
    files = rows = size = 0
    for one in parts:
        files += one.files
        rows += one.rows
        size += one.bytes
    return FileStats(files, rows, size)


def size_bucket(size_bytes: int) -> int:
    """The bucket of the size histogram that a file falls into; see `bucket_bounds`.

    Two buckets an octave, bounded by 2^k and 3·2^(k-1): three quarters of any power of two is a bound, so the
    usual question ("below three quarters of the target?") has an exact answer.
    """
    octave = max(size_bytes, 1).bit_length() - 1
    return 2 * octave + (2 * size_bytes >= 3 * (1 << octave))


def bucket_bounds(bucket: int) -> tuple[int, int]:
    """The sizes in a bucket, in bytes: from the first (inclusive) to the second (exclusive)."""
    octave, upper_half = divmod(bucket, 2)
    low = 1 << octave
    middle = (3 * low + 1) // 2
    return (middle, 2 * low) if upper_half else (low if octave else 0, middle)


@dataclass(frozen=True, slots=True)
class LiveFile:
    """One live file of a partition, as its manifest entry has it."""

    path: str
    kind: FileKind
    size_bytes: int
    """Of a deletion vector those of its blob."""
    rows: int
    sequence_number: int
    """Data sequence number: deletes apply to data files by it."""
    content_offset: int | None = None
    """Where a deletion vector begins in its Puffin file: files are told apart by (path, offset)."""
    referenced_data_file: str | None = None
    equality_ids: tuple[int, ...] = ()
    """Of equality deletes: the field ids of the columns by which they name rows."""
    first_row_id: int | None = None
    """Of a data file: the id of its first row, where rows have ids (format version 3)."""

    @property
    def identity(self) -> tuple[str, int | None]:
        """What tells this file from every other."""
        return self.path, self.content_offset
