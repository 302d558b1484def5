"""The work of one compaction job: data files in, deletes applied, larger files out, and the sums that prove it.

It holds one batch of rows and one row group at a time, and the positions that deletes name: memory does not grow with the
partition. Files are written under names that follow from the job id alone, so that whatever a crash leaves behind
can be found (`written_locations`). Nothing here touches a catalog or decides what counts; it runs in a process of
its own (`local`), and may be killed at any moment.
"""

import contextlib
import warnings
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import (
    _get_parquet_writer_kwargs,
    pyarrow_to_schema,
    schema_to_pyarrow,
)
from pyiceberg.schema import Schema, sanitize_column_names
from pyiceberg.table import TableProperties
from pyiceberg.table.locations import ObjectStoreLocationProvider, SimpleLocationProvider
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.transforms import IdentityTransform
from pyiceberg.utils.properties import property_as_bool, property_as_int

from isotherm.clock import monotonic_s
from isotherm.manifests import KEEP_FRACTION, partition_record
from isotherm.model import CompactionJob, LiveFile, Rewrite, WrittenFile
from isotherm.paths import normalised
from isotherm.storage import is_transient, table_at

from .projection import hashable, project, row_hash_sql
from .statistics import statistics

HASH_MODULUS = 1 << 128
BATCH_BYTES = 16 * 1024 * 1024
"""Rows are read in batches of about this size in memory, but of no more than `BATCH_ROWS`."""
BATCH_ROWS = 65_536
ROW_GROUP_BYTES = 128 * 1024 * 1024
"""A row group never takes more than this in memory, whatever the table asks for: it is the bulk of what we hold."""
DUCKDB_MEMORY = "256MB"
"""DuckDB only ever sees one batch."""
READ_BUFFER_BYTES = 1024 * 1024


class FailureKind(StrEnum):
    """Why a rewrite came to nothing."""

    MISSING_FILE = "missing_file"
    CORRUPT_FILE = "corrupt_file"
    OUT_OF_MEMORY = "out_of_memory"
    KILLED = "killed"
    DEADLINE = "deadline"
    STORAGE = "storage"
    UNEXPECTED = "unexpected"


@dataclass(frozen=True, slots=True)
class Failure:
    """The end of a rewrite that wrote nothing of use, and why."""

    kind: FailureKind
    why: str
    path: str | None = None
    """The input file that is to blame, if one is."""


class RewriteError(Exception):
    """A rewrite that cannot go on."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.why)
        self.failure = failure


# --- the job -------------------------------------------------------------------------------------------------


def rewrite(job: CompactionJob, metadata_location: str, io_properties: Mapping[str, str]) -> Rewrite:
    """Write the job's live rows anew, and sum up what was read and what can be read back.

    Raises:
        RewriteError: an input file is missing or corrupt, or storage does not answer.
    """
    started = monotonic_s()
    table = table_at(metadata_location, io_properties)
    metadata, io = table.metadata, table.io
    hasher = _Hasher(metadata.schema())
    deleted = _deleted_positions(io, job)
    live_rows = sum(file.rows - deleted.count(file) for file in job.data_files)
    output = _Output(io, job, metadata, expected_rows=live_rows)
    constants = _identity_constants(metadata, job)
    rows_read = hash_read = 0
    try:
        for file in job.data_files:
            with _blaming(file.path):
                source = _Source(io, file, metadata)
                here = {one: value for one, value in constants.items() if one not in source.field_ids}
                start = 0
                for batch in source.batches():
                    kept = batch.filter(deleted.keep(file, start, batch.num_rows))
                    start += batch.num_rows
                    hash_read += hasher.sum(kept, source.schema, here)
                    rows = project(kept, source.schema, output.schema, output.arrow, here)
                    with _writing():
                        output.write(rows)
                rows_read += start
        with _writing():
            written = output.finish()
    except BaseException:
        output.abandon()
        raise
    rows_written = hash_written = 0
    for result in written:
        rows, sum_of_hashes = _read_back(io, result, metadata, hasher)
        rows_written += rows
        hash_written += sum_of_hashes
    return Rewrite(
        job_id=job.job_id,
        files=tuple(written),
        rows_read=rows_read,
        rows_deleted=sum(deleted.count(file) for file in job.data_files),
        hash_read=hash_read % HASH_MODULUS,
        hash_written=hash_written % HASH_MODULUS,
        rows_written=rows_written,
        bytes_read=sum(file.size_bytes for file in (*job.data_files, *job.delete_files)),
        bytes_written=sum(file.size_bytes for file in written),
        seconds=monotonic_s() - started,
        peak_memory_bytes=_peak_memory_bytes(),
        schema_id=metadata.current_schema_id,
    )


def attempt(
    job: CompactionJob, metadata_location: str, io_properties: Mapping[str, str]
) -> Rewrite | Failure:
    """The rewrite, or why there is none; raises nothing."""
    pa.set_cpu_count(1)
    try:
        return rewrite(job, metadata_location, io_properties)
    except RewriteError as err:
        return err.failure
    except (MemoryError, duckdb.OutOfMemoryException) as err:
        return Failure(FailureKind.OUT_OF_MEMORY, f"out of memory: {err}")
    except Exception as err:  # noqa: BLE001 (the process ends here, and the reason must get out)
        return Failure(FailureKind.UNEXPECTED, f"{type(err).__name__}: {err}")


def _identity_constants(metadata: TableMetadata, job: CompactionJob) -> dict[int, Any]:
    """Values of columns that data files may lack because their partition says them (tables that came from Hive)."""
    spec = metadata.specs()[job.spec_id]
    values = partition_record(metadata, job.spec_id, job.partition)
    known = metadata.schema().field_ids
    return {
        one.source_id: values[place]
        for place, one in enumerate(spec.fields)
        if isinstance(one.transform, IdentityTransform)
        and one.source_id in known
        and values[place] is not None
    }


def _read_back(
    io: FileIO, written: WrittenFile, metadata: TableMetadata, hasher: "_Hasher"
) -> tuple[int, int]:
    """Rows and the sum of their hashes, from what storage gives back."""
    with _blaming(written.path):
        source = _Source(io, written, metadata)
        rows = total = 0
        for batch in source.batches():
            rows += batch.num_rows
            total += hasher.sum(batch, source.schema, {})
        return rows, total


def _peak_memory_bytes() -> int:
    """The most that this process held. getrusage would count what the parent held when it forked."""
    try:
        status = Path("/proc/self/status").read_text(encoding="utf-8")
    except OSError:
        return 0
    found = [line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:")]
    return int(found[0]) * 1024 if found else 0


# --- names ---------------------------------------------------------------------------------------------------


def data_location(job: CompactionJob, metadata: TableMetadata, number: int) -> str:
    """Where the job's data file of this number lies, and nothing else does."""
    spec = metadata.specs()[job.spec_id]
    name = f"isotherm-{job.job_id}-{number:05d}.parquet"
    folder = spec.partition_to_path(partition_record(metadata, job.spec_id, job.partition), metadata.schema())
    properties = metadata.properties
    if not property_as_bool(properties, "write.object-storage.enabled", False):
        provider = SimpleLocationProvider(metadata.location, properties)
        return provider.new_data_location(f"{folder}/{name}" if folder else name)
    scattered = ObjectStoreLocationProvider(metadata.location, properties)
    in_folders = property_as_bool(properties, TableProperties.WRITE_OBJECT_STORE_PARTITIONED_PATHS, True)
    return scattered.new_data_location(f"{folder}/{name}" if folder and in_folders else name)


def leftovers(io: FileIO, metadata: TableMetadata, job: CompactionJob) -> tuple[str, ...]:
    """The data files that a job has written so far.

    They are written in the order of their numbers: the first number that is not there ends the list.
    """
    found: list[str] = []
    while io.new_input(location := data_location(job, metadata, len(found))).exists():
        found.append(location)
    return tuple(found)


# --- reading -------------------------------------------------------------------------------------------------


class _Source:
    """A Parquet file, batch by batch, of the columns that the table still has."""

    def __init__(self, io: FileIO, file: LiveFile | WrittenFile, metadata: TableMetadata) -> None:
        self._parquet = pq.ParquetFile(
            io.new_input(file.path).open(),
            buffer_size=READ_BUFFER_BYTES,
            pre_buffer=False,
            # As nanoseconds, which is PyArrow's way, 0001-01-01 and 2999-12-31 become other days.
            coerce_int96_timestamp_unit="us",
        )
        rows = self._parquet.metadata.num_rows
        if rows != file.rows:
            raise RewriteError(
                Failure(
                    FailureKind.CORRUPT_FILE,
                    f"{file.path} has {rows} rows, its manifest says {file.rows}",
                    file.path,
                )
            )
        whole = pyarrow_to_schema(
            self._parquet.schema_arrow,
            name_mapping=metadata.name_mapping(),
            downcast_ns_timestamp_to_us=True,
            format_version=metadata.format_version,
        )
        self.field_ids = {one.field_id for one in whole.fields}
        known = {one.field_id for one in metadata.schema().fields}
        # One column at least, for the number of rows.
        wanted = [one for one in whole.fields if one.field_id in known] or list(whole.fields[:1])
        self.schema = Schema(*wanted)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows in the order of their positions."""
        names = [one.name for one in self.schema.fields]
        size = self._rows_per_batch()
        for batch in self._parquet.iter_batches(batch_size=size, columns=names, use_threads=False):
            yield batch.select(names)

    def _rows_per_batch(self) -> int:
        parquet = self._parquet.metadata
        size = sum(parquet.row_group(number).total_byte_size for number in range(parquet.num_row_groups))
        # Encoded bytes: dictionaries make a row larger in memory, hence the small allowance per batch.
        width = max(size // max(parquet.num_rows, 1), 1)
        return int(max(min(BATCH_ROWS, BATCH_BYTES // width), 1))


@dataclass
class _Deleted:
    """The positions that deletes remove, by data file: distinct, in order."""

    by_path: dict[str, Any] = field(default_factory=dict)

    def keep(self, file: LiveFile, start: int, rows: int) -> pa.Array:
        """A mask of the rows that stay, of those that begin at a position."""
        positions: Sequence[int] = self.by_path.get(normalised(file.path), ())
        low, high = bisect_left(positions, start), bisect_left(positions, start + rows)
        if low == high:
            return pa.repeat(pa.scalar(True), rows)
        gone = pa.array(positions[low:high], type=pa.int64())
        return pc.invert(pc.is_in(pa.arange(start, start + rows), value_set=gone))

    def count(self, file: LiveFile) -> int:
        """How many rows of a data file are deleted; positions behind its end delete nothing."""
        positions: Sequence[int] = self.by_path.get(normalised(file.path), ())
        return bisect_left(positions, file.rows)


def _deleted_positions(io: FileIO, job: CompactionJob) -> _Deleted:
    """What the job's delete files say about its data files: by path, by position, and not about younger files."""
    written_at = {normalised(file.path): file.sequence_number for file in job.data_files}
    found: dict[str, list[pa.Array]] = {}
    for delete in job.delete_files:
        with _blaming(delete.path):
            for path, positions in _positions_in(io, delete):
                key = normalised(path)
                if key in written_at and delete.sequence_number >= written_at[key]:
                    found.setdefault(key, []).append(positions)
    by_path = {}
    for key, parts in found.items():
        distinct = pc.unique(pa.chunked_array(parts, type=pa.int64()))
        ordered = distinct.take(pc.sort_indices(distinct))
        by_path[key] = memoryview(ordered.buffers()[1]).cast("q")[: len(ordered)]
    return _Deleted(by_path)


def _positions_in(io: FileIO, delete: LiveFile) -> Iterator[tuple[str, pa.Array]]:
    parquet = pq.ParquetFile(
        io.new_input(delete.path).open(), pre_buffer=False, read_dictionary=["file_path"]
    )
    if parquet.metadata.num_rows != delete.rows:
        raise RewriteError(
            Failure(
                FailureKind.CORRUPT_FILE,
                f"{delete.path} has {parquet.metadata.num_rows} rows, its manifest says {delete.rows}",
                delete.path,
            )
        )
    for batch in parquet.iter_batches(columns=["file_path", "pos"], use_threads=False):
        paths, positions = batch.column("file_path"), batch.column("pos")
        for path in pc.unique(paths):
            yield path.as_py(), positions.filter(pc.equal(paths.cast(pa.string()), path.as_py()))


# --- proving -------------------------------------------------------------------------------------------------


class _Hasher:
    """Sums of row hashes, by DuckDB over Arrow batches; it reads no file and loads no extension."""

    def __init__(self, target: Schema) -> None:
        self._target = target
        self._duckdb = duckdb.connect(
            ":memory:",
            config={
                "memory_limit": DUCKDB_MEMORY,
                "threads": 1,
                "enable_external_access": False,
                "autoinstall_known_extensions": False,
                "autoload_known_extensions": False,
            },
        )

    def sum(self, batch: pa.RecordBatch, source: Schema, constants: Mapping[int, Any]) -> int:
        """The sum of the hashes of the rows of a batch, as the target schema has them."""
        if batch.num_rows == 0:
            return 0
        self._duckdb.register("batch", hashable(batch, self._target, constants))
        expression = row_hash_sql(source, self._target, constants)
        ((total,),) = self._duckdb.execute(
            f"SELECT sum({expression}::HUGEINT) FROM batch"  # noqa: S608 (made of numbers and quoted names)
        ).fetchall()
        self._duckdb.unregister("batch")
        return int(total)


# --- writing -------------------------------------------------------------------------------------------------


class _Output:
    """Data files of about the target size, judged by what is on disk."""

    def __init__(self, io: FileIO, job: CompactionJob, metadata: TableMetadata, expected_rows: int) -> None:
        self.schema = sanitize_column_names(metadata.schema())
        self.arrow = schema_to_pyarrow(self.schema)
        self._io, self._job, self._metadata = io, job, metadata
        self._rows_to_come = expected_rows
        self._done: list[WrittenFile] = []
        self._pending: list[pa.RecordBatch] = []
        self._pending_rows = self._pending_bytes = 0
        self._sink: Any = None
        self._writer: Any = None
        self._rows = 0
        self._group_bytes = min(
            property_as_int(
                metadata.properties,
                TableProperties.PARQUET_ROW_GROUP_SIZE_BYTES,
                TableProperties.PARQUET_ROW_GROUP_SIZE_BYTES_DEFAULT,
            )
            or ROW_GROUP_BYTES,
            ROW_GROUP_BYTES,
            job.target_size_bytes,
        )
        self._group_rows = (
            property_as_int(
                metadata.properties,
                TableProperties.PARQUET_ROW_GROUP_LIMIT,
                TableProperties.PARQUET_ROW_GROUP_LIMIT_DEFAULT,
            )
            or TableProperties.PARQUET_ROW_GROUP_LIMIT_DEFAULT
        )

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows; a full row group goes out, and a full file is closed."""
        start = 0
        while start < batch.num_rows:
            part = batch.slice(start, self._group_rows - self._pending_rows)
            start += part.num_rows
            self._pending.append(part)
            self._pending_rows += part.num_rows
            self._pending_bytes += part.nbytes
            if self._pending_bytes >= self._group_bytes or self._pending_rows >= self._group_rows:
                self._flush()
                if self._is_full():
                    self._close()

    def finish(self) -> list[WrittenFile]:
        """Everything written, in order."""
        self._flush()
        self._close()
        return self._done

    def abandon(self) -> None:
        """Let go of the open file; what lies in storage is found by `leftovers`."""
        if self._sink is not None:
            with contextlib.suppress(Exception):
                # A remote file that is not closed yet need not go up at all.
                getattr(self._sink, "discard", self._sink.close)()

    def _flush(self) -> None:
        if not self._pending:
            return
        rows = pa.Table.from_batches(self._pending, schema=self.arrow)
        self._pending, self._pending_rows, self._pending_bytes = [], 0, 0
        if self._writer is None:
            self._open()
        self._writer.write_table(rows, row_group_size=self._group_rows)
        self._rows += rows.num_rows
        self._rows_to_come -= rows.num_rows

    def _open(self) -> None:
        location = data_location(self._job, self._metadata, len(self._done))
        with warnings.catch_warnings():
            # PyIceberg warns of each property that its writer does not know (bloom filters); once a file is noise.
            warnings.simplefilter("ignore")
            options = _get_parquet_writer_kwargs(self._metadata.properties)
        self._sink = self._io.new_output(location).create(overwrite=True)
        self._location = location
        self._writer = pq.ParquetWriter(
            self._sink, self.arrow, store_decimal_as_integer=True, store_schema=False, **options
        )

    def _is_full(self) -> bool:
        """Whether to begin a new file: this one has its size, and what is to come fills a file of its own.

        So the last file of a partition is at most 1.75 times the target, and none is so small that it would be
        due again.
        """
        size = self._sink.tell()
        to_come = self._rows_to_come * size / self._rows
        return bool(
            size >= self._job.target_size_bytes and to_come >= KEEP_FRACTION * self._job.target_size_bytes
        )

    def _close(self) -> None:
        if self._writer is None:
            return
        self._writer.close()
        size = self._sink.tell()
        self._sink.close()
        # By the table's own names, as its properties know them.
        found = statistics(self._writer.writer.metadata, self._metadata.schema(), self._metadata.properties)
        self._done.append(
            WrittenFile(
                path=self._location,
                size_bytes=size,
                rows=self._rows,
                column_sizes=found.column_sizes,
                value_counts=found.value_counts,
                null_value_counts=found.null_value_counts,
                nan_value_counts=found.nan_value_counts,
                lower_bounds=found.lower_bounds,
                upper_bounds=found.upper_bounds,
                split_offsets=found.split_offsets,
            )
        )
        self._writer = self._sink = None
        self._rows = 0


# --- blame ---------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _blaming(path: str) -> Iterator[None]:
    """What goes wrong inside is the fault of this file, or of the store that holds it."""
    try:
        yield
    except (RewriteError, MemoryError):
        raise
    except FileNotFoundError as err:
        raise RewriteError(Failure(FailureKind.MISSING_FILE, f"{path} is not there: {err}", path)) from err
    except pa.ArrowInvalid as err:
        raise RewriteError(
            Failure(FailureKind.CORRUPT_FILE, f"{path} is no sound Parquet: {err}", path)
        ) from err
    except OSError as err:
        # PyArrow has one exception for a broken page and for a broken store; only the store's carry a number
        # of the operating system or the name of a cloud.
        if is_transient(err) or err.errno is not None or "AWS Error" in str(err):
            raise RewriteError(Failure(FailureKind.STORAGE, f"reading {path}: {err}", path)) from err
        raise RewriteError(
            Failure(FailureKind.CORRUPT_FILE, f"{path} is no sound Parquet: {err}", path)
        ) from err


@contextlib.contextmanager
def _writing() -> Iterator[None]:
    """What goes wrong inside is not the fault of an input file."""
    try:
        yield
    except OSError as err:
        raise RewriteError(Failure(FailureKind.STORAGE, f"writing: {err}")) from err
