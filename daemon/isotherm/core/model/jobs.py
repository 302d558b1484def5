"""Work: what can be done, a compaction bound to its files, what an executor made of it, what came of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Self

from isotherm.contract.identity import UNPARTITIONED, PartitionKey, TableId
from isotherm.core.model.files import FileKind, LiveFile
from isotherm.core.model.job_limits import keys_bytes
from isotherm.core.model.refusals import Reason, Refusal

ON_MANIFESTS = "(manifests)"
"""The label of a job that takes no file. No partition has such a one: theirs say which values they have."""


class Action(StrEnum):
    """What can be done. The order is the order within a table: expiry and manifests make the rest cheap."""

    EXPIRE = "expire"
    REWRITE_MANIFESTS = "rewrite_manifests"
    TRIM_METADATA = "trim_metadata"
    COMPACT = "compact"
    REMOVE_ORPHANS = "remove_orphans"


@dataclass(frozen=True, slots=True)
class Take:
    """Which data files of a partition a compaction takes: the smallest first, or with deletes the oldest."""

    below_bytes: int = 0
    """Those that are smaller than this."""
    with_deletes: bool = False
    """And those that delete files may name."""
    spared_ratio: float = 0.0
    """But for those of which delete files of their own name a smaller part of the rows, and no other may name any."""
    merges_deletes: bool = False
    """And of the position deletes on files that stay a few are made; their data is not touched."""
    deletes_below_bytes: int | None = None
    """Of those that are merged only the ones that are smaller than this. None: all."""
    converts_equality: bool = False
    """And equality deletes become position deletes, merged with those; of files that stay the key columns are read."""
    at_most_bytes: int | None = None
    """So much of them, and MAX_JOB_FILES, but two files at least (one, with deletes). None: all."""
    through_number: int | None = None
    """Those alone that came with this sequence number or an earlier one, beside writers that go on to append. None: all."""
    output_spec_id: int | None = None
    """Those alone of other partition specs: what is written of them is of this one. None: of the spec of what is read."""
    before_ms: int | None = None
    """Of those the ones of which all rows lie before this event time. None: all."""
    not_into: Mapping[PartitionKey, str] = field(default_factory=dict, hash=False)
    """And of which none goes into one of these partitions, which are hot, each with why."""

    @property
    def rewrites_data(self) -> bool:
        """Whether it takes any data file at all."""
        return self.below_bytes > 0 or self.with_deletes

    @property
    def is_about_deletes(self) -> bool:
        """Whether it reads any delete file at all."""
        return self.with_deletes or self.merges_deletes or self.converts_equality

    @property
    def merged_bytes(self) -> int | None:
        """How much of the deletes it merges at most, or None for all: half of a job that rewrites data as well."""
        if self.at_most_bytes is None:
            return None
        return self.at_most_bytes // 2 if self.rewrites_data else self.at_most_bytes


@dataclass(frozen=True, slots=True)
class Destination:
    """Where a job writes, as its table was when the job was bound: its owner may choose another place meanwhile."""

    location: str
    """The table's."""
    folder: str
    """The partition's folder below it, or empty if it has none."""
    properties: Mapping[str, str]
    """Of the table's properties those that choose a place."""


@dataclass(frozen=True, slots=True)
class SortKey:
    """A column by which rows are sorted, whatever the table's own sort order says."""

    field_id: int
    is_falling: bool = False
    are_nulls_last: bool = False


@dataclass(frozen=True, slots=True)
class AskedOrder:
    """The order of rows for which a policy asks."""

    keys: tuple[SortKey, ...]
    is_zorder: bool = False
    """Along a curve through all columns, instead of by one after the other."""


class OutputSpec(StrEnum):
    """The partition spec of new files: that of the files that are read, or the table's current one."""

    OWN = "own"
    CURRENT = "current"


class ExecutorName(StrEnum):
    """Where a rewrite runs, as `executors` in isotherm.yaml names it."""

    LOCAL = "local"
    SPARK = "spark"


@dataclass(frozen=True, slots=True)
class JobRead:
    """How much a job was to read."""

    data_files: int = 0
    delete_files: int = 0
    bytes: int = 0

    @property
    def is_least(self) -> bool:
        """Whether no job of its kind reads less: two files, or one data file with all deletes that may name its rows."""
        files = self.data_files + min(self.delete_files, 1) if self.data_files else self.delete_files
        return files <= 2


NOTHING_READ = JobRead()


@dataclass(frozen=True, slots=True)
class CompactionJob:
    """A compaction bound to the files that it replaces: live files of one partition and one spec."""

    job_id: str
    table: TableId
    partition: PartitionKey
    partition_label: str
    spec_id: int
    base_snapshot_id: int
    base_sequence_number: int
    data_files: tuple[LiveFile, ...]
    delete_files: tuple[LiveFile, ...]
    """Every delete file that may apply to one of the data files, and those that are merged."""
    bystanders: frozenset[tuple[str, int | None]]
    """The partition's other live files, which stay: whatever else appears refuses the commit."""
    target_size_bytes: int
    policy_hash: str
    why: str
    destination: Destination | None = None
    """None where a version wrote it that did not know."""
    beside_appends: bool = False
    """Files that others append meanwhile do not stand against it: the partition is hot, and its writers only append."""
    merges_deletes: bool = False
    """All its position-delete files leave: what they say of files that stay is written again."""
    staying: tuple[LiveFile, ...] = ()
    """Where deletes are merged, the data files that stay and that these deletes may name."""
    converts_equality: bool = False
    """What its equality deletes say of files that stay is written too, as positions."""
    sort_order_id: int = 0
    """The table's sort order by which the rows are sorted that it writes, or 0."""
    asked_order: AskedOrder | None = None
    """Other columns by which they are sorted, or None. With neither they stay in the order of their files."""
    executor: ExecutorName = ExecutorName.LOCAL
    window_id: str = ""
    """The window in which its writers leave the partition alone, which is hot otherwise."""
    output_spec_id: int | None = None
    """The partition spec of what it writes, where that is another than that of what it reads."""
    outputs: tuple[PartitionKey, ...] = ()
    """The partitions of that spec into which rows may go. Each was cold when the job began; a row of any other ends it."""

    @property
    def touched(self) -> tuple[PartitionKey, ...]:
        """Every partition that its commit may touch."""
        return tuple(dict.fromkeys((self.partition, *self.outputs)))

    @property
    def is_on_manifests(self) -> bool:
        """Whether it takes no file, and makes fewer of its table's manifests (`job_on_manifests`)."""
        return self.partition_label == ON_MANIFESTS

    @property
    def without_files(self) -> Self:
        """All that it takes to find out what became of it, and what it wrote. Its files may be a million."""
        return replace(self, data_files=(), delete_files=(), staying=(), bystanders=frozenset())

    @property
    def named_files(self) -> tuple[LiveFile, ...]:
        """The data files of which its delete files may speak."""
        return self.data_files + self.staying

    @property
    def read_files(self) -> tuple[LiveFile, ...]:
        """The files that are read: data files that stay too, where rows are looked for in them."""
        return self.data_files + self.delete_files + self._looked_through

    @property
    def read_bytes(self) -> int:
        """What is read of these: of those that rows are looked for in, the keys."""
        whole = sum(file.size_bytes for file in (*self.data_files, *self.delete_files))
        return whole + sum(keys_bytes(file.rows, file.size_bytes) for file in self._looked_through)

    @property
    def read(self) -> JobRead:
        """The same in numbers of files."""
        data = len(self.data_files) + len(self._looked_through)
        return JobRead(data, len(self.delete_files), self.read_bytes)

    @property
    def _looked_through(self) -> tuple[LiveFile, ...]:
        return self.staying if self.converts_equality else ()

    @property
    def equality_deletes(self) -> tuple[LiveFile, ...]:
        """Those of its delete files that name rows by the values of columns."""
        return tuple(file for file in self.delete_files if file.kind is FileKind.EQUALITY_DELETES)

    @property
    def position_deletes(self) -> tuple[LiveFile, ...]:
        """Those of its delete files that name rows by path and position."""
        return tuple(file for file in self.delete_files if file.kind is FileKind.POSITION_DELETES)

    @property
    def deletion_vectors(self) -> tuple[LiveFile, ...]:
        """Those that name the rows of one data file, as a bitmap."""
        return tuple(file for file in self.delete_files if file.kind is FileKind.DELETION_VECTORS)


def job_on_manifests(
    job_id: str, table: TableId, snapshot_id: int, sequence_number: int, policy_hash: str, why: str
) -> CompactionJob:
    """A job that takes no file: of its table's manifests fewer are made."""
    return CompactionJob(
        job_id=job_id,
        table=table,
        partition=UNPARTITIONED,
        partition_label=ON_MANIFESTS,
        spec_id=0,
        base_snapshot_id=snapshot_id,
        base_sequence_number=sequence_number,
        data_files=(),
        delete_files=(),
        bystanders=frozenset(),
        target_size_bytes=0,
        policy_hash=policy_hash,
        why=why,
    )


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A file that an executor wrote: what a manifest entry needs. Bounds are Iceberg's single-value bytes."""

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
    partition: PartitionKey | None = None
    """In which it lies, where that is not the one that was read."""


@dataclass(frozen=True, slots=True)
class MergedDeletes:
    """The position deletes on files that stay, in new files, with the sums that prove it."""

    files: tuple[WrittenFile, ...]
    positions_read: int
    """Distinct positions of rows that are there, and that the deletes before may remove."""
    positions_written: int
    """Rows of the new files, read back from storage."""
    hash_read: int
    """Sum modulo 2^128 of the hashes of path and position."""
    hash_written: int


NOTHING_MERGED = MergedDeletes((), 0, 0, 0, 0)


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
    name_mapping: str = ""
    """The table's name mapping, by which files without field ids were read."""
    merged: MergedDeletes = NOTHING_MERGED
    has_row_ids: bool = False
    """Whether the files say the ids of their rows (format version 3)."""
    sort_order_id: int = 0
    """The table's sort order by which the rows of each file are sorted, or 0: in none."""

    @property
    def all_files(self) -> tuple[WrittenFile, ...]:
        """Data and delete files."""
        return self.files + self.merged.files


NOTHING_WRITTEN = Rewrite("", (), 0, 0, 0, 0, 0, 0, 0, 0.0, 0)
"""Of a job that takes no file."""


@dataclass(frozen=True, slots=True)
class Swap:
    """A job that was done: what is written is to take the place of what was read."""

    job: CompactionJob
    rewrite: Rewrite


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
    reason: Reason
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

    @classmethod
    def refused(cls, job_id: str, refusal: Refusal) -> Self:
        """The end of a job that came to nothing."""
        return cls(job_id, OutcomeKind.FAILED, refusal.reason, refusal.why)
