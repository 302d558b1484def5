"""The nouns that every other module speaks of: tables, files, changes, jobs, outcomes. Values only."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from isotherm.contract.identity import PartitionKey, TableId
from isotherm.contract.summary import Origin


@dataclass(frozen=True, slots=True)
class PartitionField:
    """One field of a partition spec, as far as decisions need it."""

    field_id: int
    name: str
    transform: str
    """As Iceberg writes it: `hour`, `day`, `month`, `year`, `identity`, `bucket[16]`, `truncate[4]`, `void`."""
    source_type: str
    """Iceberg's name of the source column's type: `timestamptz`, `date`, `int`, …"""
    epoch: str | None = None
    """How a number or a text in it holds a time, where the policy says that it does (`policy.Epoch`)."""


class FileKind(StrEnum):
    """What a live file holds."""

    DATA = "data"
    POSITION_DELETES = "position_deletes"
    EQUALITY_DELETES = "equality_deletes"
    DELETION_VECTORS = "deletion_vectors"


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


NO_FILES = FileStats()


def total(stats: Iterable[FileStats]) -> FileStats:
    """The sum of some file statistics."""
    return sum(stats, NO_FILES)


class Action(StrEnum):
    """What can be done. The order is the order within a table: expiry and manifests make the rest cheap."""

    EXPIRE = "expire"
    REWRITE_MANIFESTS = "rewrite_manifests"
    TRIM_METADATA = "trim_metadata"
    COMPACT = "compact"
    REMOVE_ORPHANS = "remove_orphans"


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
class PartitionDelta:
    """What one snapshot did to one partition."""

    data: Mapping[int, FileStats] = field(default_factory=dict)
    """Change of the size histogram of data files, by bucket; added less removed."""
    deletes: Mapping[FileKind, FileStats] = field(default_factory=dict)
    """Change of delete files by kind; added less removed."""
    added: FileStats = NO_FILES
    """Files of every kind that came."""
    removed: FileStats = NO_FILES
    """Files of every kind that left."""


@dataclass(frozen=True, slots=True)
class Change:
    """What one snapshot did to each partition, read from the manifests that it added."""

    snapshot_id: int
    parent_id: int | None
    sequence_number: int
    committed_at_ms: int
    operation: str
    origin: Origin
    partitions: Mapping[PartitionKey, PartitionDelta]
    manifests: tuple[tuple[str, int], ...] = ()
    """The manifests that were read for it, path and spec id, as often as they were, so that it can be held against
    the manifest list later."""
    valid_through_ms: int | None = None
    """Event time that the writer vouches for: nothing older is still to come, in the ordinary run of things."""
    totals: Mapping[str, int] = field(default_factory=dict)
    """The `total-*` counters of the summary, for the comparison at every event."""

    @property
    def is_foreign_write(self) -> bool:
        """Whether it counts as a write of the stream: not ours, and not a rewrite of what was there."""
        return self.origin is not Origin.MAINTENANCE and self.operation != "replace"


@dataclass(frozen=True, slots=True)
class LiveFile:
    """One live file of a partition, as its manifest entry has it."""

    path: str
    kind: FileKind
    size_bytes: int
    rows: int
    sequence_number: int
    """Data sequence number: deletes apply to data files by it."""
    content_offset: int | None = None
    """Where a deletion vector begins in its Puffin file: files are told apart by (path, offset)."""
    referenced_data_file: str | None = None

    @property
    def identity(self) -> tuple[str, int | None]:
        """What tells this file from every other."""
        return self.path, self.content_offset


@dataclass(frozen=True, slots=True)
class CompactionJob:
    """A compaction bound to the files that it replaces: all live files of one partition and one spec, or a part."""

    job_id: str
    table: TableId
    partition: PartitionKey
    partition_label: str
    spec_id: int
    base_snapshot_id: int
    base_sequence_number: int
    data_files: tuple[LiveFile, ...]
    delete_files: tuple[LiveFile, ...]
    """Every delete file that may apply to one of the data files."""
    bystanders: frozenset[tuple[str, int | None]]
    """The partition's other live files, which stay: whatever else appears refuses the commit."""
    target_size_bytes: int
    policy_hash: str
    why: str


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A data file that an executor wrote: what a manifest entry needs. Bounds are Iceberg's single-value bytes."""

    path: str
    size_bytes: int
    rows: int
    column_sizes: Mapping[int, int]
    value_counts: Mapping[int, int]
    null_value_counts: Mapping[int, int]
    nan_value_counts: Mapping[int, int]
    lower_bounds: Mapping[int, bytes]
    upper_bounds: Mapping[int, bytes]
    split_offsets: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Rewrite:
    """What an executor made of a job, with the sums that prove it."""

    job_id: str
    files: tuple[WrittenFile, ...]
    rows_read: int
    """Rows in the data files, before deletes."""
    rows_deleted: int
    """Distinct positions that deletes removed."""
    hash_read: int
    """Sum modulo 2^128 of the row hashes of what was read, less deletes, in the target schema."""
    hash_written: int
    """The same sum over the written files, read back from storage."""
    rows_written: int
    bytes_read: int
    bytes_written: int
    seconds: float
    peak_memory_bytes: int
    schema_id: int | None = None
    """The schema in which the files are written."""


class HoldKind(StrEnum):
    """What can hold a table, a partition or a daemon back."""

    HALT = "halt"
    """Something must not be: nothing is done to the table until a person has looked."""
    PAUSE = "pause"
    """A person said so."""
    QUARANTINE = "quarantine"
    """A partition's jobs fail: it waits before it is tried again."""
    LEDGER = "ledger"
    """A daemon's ledger was lost: it deletes nothing until a person has said that it may."""


@dataclass(frozen=True, slots=True)
class Hold:
    """What holds back a table, one of its partitions, or a daemon."""

    kind: HoldKind
    uuid: str
    """Of the table; for LEDGER, of the ledger."""
    name: str
    """The table's, for people."""
    why: str
    at_ms: int
    partition: PartitionKey | None = None
    until_ms: int | None = None
    """It ends by itself then; None: when a person ends it, or a job that went well."""
    failures: int = 0
    """How often in a row the partition's jobs failed."""

    @property
    def key(self) -> str:
        """What tells it from every other, as the topic knows it."""
        return hold_key(self.uuid, self.kind, self.partition)

    def holds(self, now_ms: int) -> bool:
        """Whether it holds something back now."""
        return self.until_ms is None or self.until_ms > now_ms


def hold_key(uuid: str, kind: HoldKind, partition: PartitionKey | None = None) -> str:
    """The key of a hold on the topic: `<uuid>/<kind>`, and the partition where it is one partition's."""
    return f"{uuid}/{kind}" if partition is None else f"{uuid}/{kind}/{partition}"


class OutcomeKind(StrEnum):
    """What came of a job. There is no fourth."""

    DONE = "done"
    FAILED = "failed"
    """As far as a look shows, nothing of it is in the table. What it wrote goes the way of `deletion`."""
    UNKNOWN = "unknown"
    """Nobody can say yet: touch nothing, find out."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of a job, and why."""

    job_id: str
    kind: OutcomeKind
    reason: str
    """One word of a closed list, for metrics: `committed`, `conflict`, `hot`, `cancelled`, `mismatch`, …"""
    why: str
    """A sentence for a person, numbers included."""
    snapshot_id: int | None = None
    asserted_head_id: int | None = None
    """With UNKNOWN: the head that the request asserts; while it is the table's head, the request may yet land."""
    was_sent: bool = False
    """Whether a request of this job may have reached the catalog, whatever it answered."""
    leftovers: tuple[str, ...] = ()
    """Manifests and manifest lists that were written for the commit and that no snapshot of it names, as far as is
    known."""
