"""The work of one compaction job: data files in, deletes applied, larger files out, and the sums that prove it.

It holds one batch of rows and one row group at a time, and the positions that deletes name: memory does not grow with the
partition. Files are written under names that follow from the job id alone, so that whatever a crash leaves behind
can be found (`written_locations`). Nothing here touches a catalog or decides what counts; it runs in a process of
its own (`executor`), and may be killed at any moment.
"""

import contextlib
import math
import warnings
from bisect import bisect_left
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
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
    parquet_path_to_id_mapping,
    schema_to_pyarrow,
)
from pyiceberg.schema import Schema, sanitize_column_names
from pyiceberg.table import TableProperties
from pyiceberg.table.locations import ObjectStoreLocationProvider, SimpleLocationProvider
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import BooleanType
from pyiceberg.utils.properties import property_as_bool, property_as_int

from isotherm.core.model.files import LiveFile
from isotherm.core.model.jobs import CompactionJob, Rewrite, WrittenFile
from isotherm.core.paths import normalised
from isotherm.iceberg.compaction.nearby import nearby
from isotherm.iceberg.compaction.projection import Node, nodes, project
from isotherm.iceberg.compaction.proof import Proof, Tally
from isotherm.iceberg.compaction.statistics import statistics
from isotherm.iceberg.manifests.live import KEEP_FRACTION, partition_record
from isotherm.iceberg.storage import is_transient, table_at
from isotherm.runtime.clock import monotonic_s

HASH_MODULUS = 1 << 128
BATCH_BYTES = 16 * 1024 * 1024
"""Rows are read in batches of at most about this size in memory, and of no more than `BATCH_ROWS`."""
BATCH_ROWS = 8192
"""The first batch in which rows become large holds as many: 160 MB of documents of 20 kB."""
ROW_GROUP_BYTES = 128 * 1024 * 1024
"""A row group never takes more than this in memory, whatever the table asks for: it is the bulk of what we hold."""
BLOOM_FALSE_POSITIVES = 0.01
"""Java's own."""
READ_BUFFER_BYTES = 1024 * 1024


class FailureKind(StrEnum):
    """Why a rewrite came to nothing."""

    MISSING_FILE = "missing_file"
    CORRUPT_FILE = "corrupt_file"
    OUT_OF_MEMORY = "out_of_memory"
    KILLED = "killed"
    DEADLINE = "deadline"
    STORAGE = "storage"
    MISMATCH = "mismatch"
    """The rows that were written are not as manifests would tell; the same word as the committer's."""
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
    inputs = [file.path for file in (*job.data_files, *job.delete_files)]
    proof = Proof(metadata.schema(), metadata.name_mapping(), job.data_files, inputs)
    deleted = _deleted_positions(io, job, proof)
    live_rows = sum(file.rows - deleted.count(file) for file in job.data_files)
    output = _Output(io, job, metadata, expected_rows=live_rows)
    constants = _identity_constants(metadata, job)
    found: list[Tally] = []
    try:
        for number, file in enumerate(job.data_files):
            with _blaming(file.path), nearby(io, file.path) as path, ThreadPoolExecutor(1) as beside:
                # Both engines release the interpreter: the second core sums while this one writes.
                tally = beside.submit(proof.sum, path, number, constants)
                source = _Source(path, file, metadata)
                start = 0
                for batch in source.batches():
                    kept = batch.filter(deleted.keep(file, start, batch.num_rows))
                    start += batch.num_rows
                    rows = project(kept, source.columns, output.schema, output.arrow, constants)
                    with _writing():
                        output.write(rows)
                found.append(tally.result())
        with _writing():
            written = output.finish()
    except BaseException:
        output.abandon()
        raise
    proof.close()
    proof = Proof(metadata.schema(), None, locations=[file.path for file in written])
    back = [_read_back(io, file, proof) for file in written]
    return Rewrite(
        job_id=job.job_id,
        files=tuple(written),
        rows_read=sum(tally.rows for tally in found),
        rows_deleted=sum(tally.rows - tally.live for tally in found),
        hash_read=sum(tally.hash for tally in found) % HASH_MODULUS,
        hash_written=sum(tally.hash for tally in back) % HASH_MODULUS,
        rows_written=sum(tally.rows for tally in back),
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


def _read_back(io: FileIO, written: WrittenFile, proof: Proof) -> Tally:
    """The rows that storage gives back, which are as their statistics say."""
    with _blaming(written.path), nearby(io, written.path) as path:
        tally, problem = proof.read_back(path, written)
    if problem is not None:
        raise RewriteError(Failure(FailureKind.MISMATCH, f"{written.path}: {problem}"))
    return tally


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

    def __init__(self, path: str, file: LiveFile, metadata: TableMetadata) -> None:
        self._parquet = pq.ParquetFile(
            pa.OSFile(path),
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
        schema = self._parquet.schema_arrow
        try:
            every = nodes(schema, metadata.name_mapping())
        except ValueError as err:
            raise RewriteError(Failure(FailureKind.CORRUPT_FILE, f"{file.path}: {err}", file.path)) from err
        known = {field.field_id for field in metadata.schema().fields}
        # One column at least, for the number of rows.
        wanted = [place for place, node in enumerate(every) if node.field_id in known] or [0]
        self._names = list(dict.fromkeys(schema.field(place).name for place in wanted))
        # Names may be there twice, and PyArrow takes `a` for `a.b` too: columns are told apart by their places.
        self._places = [self._place(schema.names, place) for place in wanted]
        self.columns: tuple[Node, ...] = tuple(every[place] for place in wanted)

    def _place(self, names: list[str], place: int) -> tuple[str, int]:
        """The name of a column, and how many columns before it have the same."""
        return names[place], names[:place].count(names[place])

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows in the order of their positions, in batches of at most about `BATCH_BYTES`.

        How much memory a row takes is only known when it is there, because a dictionary makes ten bytes of twenty
        thousand. So the batches are small, and where rows turn out to be large, the row group is begun again with
        fewer at a time.
        """
        rows = BATCH_ROWS
        for group in range(self._parquet.metadata.num_row_groups):
            done, whole = 0, self._parquet.metadata.row_group(group).num_rows
            while done < whole:
                for batch in self._of_group(group, rows, done):
                    yield batch
                    done += batch.num_rows
                    fitting = max(BATCH_BYTES * batch.num_rows // max(batch.nbytes, 1), 1)
                    if fitting <= rows // 2:
                        rows = fitting
                        break
                else:
                    break

    def _of_group(self, group: int, rows: int, start: int) -> Iterator[pa.RecordBatch]:
        """Batches of a row group from a row on: what is before it is decoded, and let go of."""
        batches = self._parquet.iter_batches(
            batch_size=rows, row_groups=[group], columns=self._names, use_threads=False
        )
        for batch in batches:
            if start >= batch.num_rows:
                start -= batch.num_rows
                continue
            yield self._chosen(batch.slice(start))
            start = 0

    def _chosen(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        places: dict[str, list[int]] = {}
        for place, name in enumerate(batch.schema.names):
            places.setdefault(name, []).append(place)
        arrays = [batch.column(places[name][number]) for name, number in self._places]
        return pa.RecordBatch.from_arrays(arrays, names=[f"c{one}" for one in range(len(arrays))])


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


def _deleted_positions(io: FileIO, job: CompactionJob, proof: Proof) -> _Deleted:
    """What the job's delete files say about its data files: by path, by position, and not about younger files.

    The proof reads the same files, and finds out for itself.
    """
    written_at = {normalised(file.path): file.sequence_number for file in job.data_files}
    found: list[pa.RecordBatch] = []
    for delete in job.delete_files:
        older = {path for path, number in written_at.items() if delete.sequence_number >= number}
        with _blaming(delete.path), nearby(io, delete.path) as path:
            found += _positions_in(path, delete, older)
            proof.delete(path, delete.sequence_number, delete.rows)
    if not found:
        return _Deleted()
    table = pa.Table.from_batches(found).group_by("path", use_threads=False)
    distinct = table.aggregate([("pos", "distinct")])
    by_path = {}
    for key, positions in zip(distinct["path"], distinct["pos_distinct"], strict=True):
        ordered = positions.values.take(pc.sort_indices(positions.values))
        by_path[key.as_py()] = memoryview(ordered.buffers()[1]).cast("q")[: len(ordered)]
    return _Deleted(by_path)


def _positions_in(path: str, delete: LiveFile, of: Collection[str]) -> Iterator[pa.RecordBatch]:
    """The positions that a delete file names in some data files, with those files' names in our spelling."""
    parquet = pq.ParquetFile(pa.OSFile(path), pre_buffer=False, read_dictionary=["file_path"])
    if parquet.metadata.num_rows != delete.rows:
        raise RewriteError(
            Failure(
                FailureKind.CORRUPT_FILE,
                f"{delete.path} has {parquet.metadata.num_rows} rows, its manifest says {delete.rows}",
                delete.path,
            )
        )
    for batch in parquet.iter_batches(columns=["file_path", "pos"], use_threads=False):
        # As a dictionary: there may be thousands of names, each of them for many rows.
        paths = batch.column("file_path")
        names = pa.array([normalised(one) for one in paths.dictionary.to_pylist()], pa.string())
        spelled = names.take(paths.indices)
        ours = pc.is_in(spelled, value_set=pa.array(sorted(of), pa.string()))
        found = pa.RecordBatch.from_arrays(
            [spelled, batch.column("pos").cast(pa.int64())], names=["path", "pos"]
        )
        yield found.filter(ours)


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
            self._open(rows.num_rows)
        self._writer.write_table(rows, row_group_size=self._group_rows)
        self._rows += rows.num_rows
        self._rows_to_come -= rows.num_rows

    def _open(self, rows_per_group: int) -> None:
        location = data_location(self._job, self._metadata, len(self._done))
        self._sink = self._io.new_output(location).create(overwrite=True)
        self._location = location
        self._writer = pq.ParquetWriter(
            self._sink,
            self.arrow,
            store_decimal_as_integer=True,
            store_schema=False,
            # As Java does always: readers pass over pages by it.
            write_page_index=True,
            bloom_filter_options=_bloom_filters(self._metadata, self.schema, rows_per_group),
            **_writer_options(self._metadata.properties),
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


_CODECS = {
    "uncompressed": "none",
    "none": "none",
    "snappy": "snappy",
    "gzip": "gzip",
    "zstd": "zstd",
    "lz4": "lz4",
}
"""Codecs by their names in `write.parquet.compression-codec`, which Java takes in any case, and PyArrow's for them."""


def _writer_options(properties: Mapping[str, str]) -> dict[str, Any]:
    """What PyIceberg makes of the table's properties; a codec that PyArrow cannot write becomes zstd."""
    name = TableProperties.PARQUET_COMPRESSION
    codec = properties.get(name, TableProperties.PARQUET_COMPRESSION_DEFAULT).lower()
    with warnings.catch_warnings():
        # It warns of each property that its own writer does not know; once a file is noise.
        warnings.simplefilter("ignore")
        return {**_get_parquet_writer_kwargs(dict(properties)), "compression": _CODECS.get(codec, "zstd")}


def _bloom_filters(metadata: TableMetadata, written: Schema, rows: int) -> dict[str, dict[str, Any]] | None:
    """The Bloom filters that the table asks for, by the paths of their columns; for as many values as a group has rows.

    None is larger than `write.parquet.bloom-filter-max-bytes`: then it finds more that is not there, as Java's do.
    """
    properties, schema = metadata.properties, metadata.schema()
    enabled = f"{TableProperties.PARQUET_BLOOM_FILTER_COLUMN_ENABLED_PREFIX}."
    paths = {field_id: path for path, field_id in parquet_path_to_id_mapping(written).items()}
    most_bytes = property_as_int(
        properties,
        TableProperties.PARQUET_BLOOM_FILTER_MAX_BYTES,
        TableProperties.PARQUET_BLOOM_FILTER_MAX_BYTES_DEFAULT,
    )
    options: dict[str, dict[str, Any]] = {}
    for key, value in properties.items():
        name = key.removeprefix(enabled)
        if name == key or value.lower() != "true" or name not in schema.column_names:
            continue
        path = paths.get(schema.find_field(name).field_id)
        if path is None or isinstance(schema.find_type(name), BooleanType):
            # Parquet has none for booleans, and none for what is nested as such.
            continue
        wrong = float(properties.get(f"write.parquet.bloom-filter-fpp.column.{name}", BLOOM_FALSE_POSITIVES))
        bytes_per_value = -1 / math.log(1 - wrong ** (1 / 8))
        options[path] = {
            "ndv": max(min(rows, int((most_bytes or 0) / bytes_per_value)), 1),
            "fpp": wrong,
        }
    return options or None


# --- blame ---------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _blaming(path: str) -> Iterator[None]:
    """What goes wrong inside is the fault of this file, or of the store that holds it."""
    try:
        yield
    except (RewriteError, MemoryError, duckdb.OutOfMemoryException):
        raise
    except (duckdb.DataError, duckdb.IOException, duckdb.InvalidInputException) as err:
        raise RewriteError(
            Failure(FailureKind.CORRUPT_FILE, f"{path} is no sound Parquet: {err}", path)
        ) from err
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
