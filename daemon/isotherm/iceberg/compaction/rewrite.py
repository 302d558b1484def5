"""The work of one compaction job: data files in, deletes applied, larger files out, and the sums that prove it.

Deletes on files that stay become one file, if the job says so (`delete_files`).

It holds one batch of rows and one row group at a time, what is sorted at once (`sorting`), and the positions that
deletes name: memory does not grow with the partition. Files get names that follow from the job id alone, so that whatever a crash leaves behind can be found
(`names.leftovers`). Nothing here touches a catalog or decides what counts. It runs in a process of its own (`fork_program`), and
may be killed at any moment.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
from pyiceberg.io import FileIO, load_file_io
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.transforms import IdentityTransform

from isotherm.clients.storage import properties_with_retries
from isotherm.contract.identity import PartitionKey
from isotherm.core.model.files import LiveFile
from isotherm.core.model.jobs import CompactionJob, Rewrite, WrittenFile
from isotherm.core.model.refusals import Reason, Refusal, RefusalError
from isotherm.core.model.tables import WITH_ROW_IDS
from isotherm.iceberg.compaction.counters import NOBODY, Told, part_of
from isotherm.iceberg.compaction.curve import Curve
from isotherm.iceberg.compaction.delete_files import merged_deletes
from isotherm.iceberg.compaction.deleted_rows import Deleted, deleted_rows
from isotherm.iceberg.compaction.division import (
    ByPartition,
    DividedOutput,
    Division,
    lies_elsewhere,
    told_of,
)
from isotherm.iceberg.compaction.failures import blaming, writing
from isotherm.iceberg.compaction.local_copy import in_turn
from isotherm.iceberg.compaction.names import data_location
from isotherm.iceberg.compaction.passing import NONE_PASSED, pass_through, passed_back
from isotherm.iceberg.compaction.projection import project
from isotherm.iceberg.compaction.row_sums import HASH_MODULUS, RowSums, Tally, out_of_memory
from isotherm.iceberg.compaction.sorting import Comparing, Ordering, Sorted
from isotherm.iceberg.compaction.source import Source
from isotherm.iceberg.manifests.partition_values import partition_record
from isotherm.iceberg.partition_fields import partition_fields
from isotherm.iceberg.row_ids import filled, with_row_ids
from isotherm.iceberg.values import name_mapping_of
from isotherm.parquet.output import NewFile, Output
from isotherm.parquet.table_description import table_of
from isotherm.runtime.clock import monotonic_s

OPEN_FILES, OPEN_BYTES, OPEN_COLUMNS = 16, 16 * 1024**2, 4096
"""Of files that are read together: so many, of so many bytes, and of so many columns in all."""


def rewrite(
    job: CompactionJob, description: str, io_properties: Mapping[str, str], told: Told = NOBODY
) -> Rewrite:
    """Write the job's live rows into new files, and sum up what was read and what can be read back.

    Args:
        job: what is read.
        description: the table, by `described`.
        io_properties: of its FileIO.
        told: how far it is, in rows and bytes.

    Raises:
        RefusalError: an input file is missing or corrupt, or storage does not answer.
    """
    started = monotonic_s()
    metadata = with_row_ids(table_of(description))
    io = files_of(metadata, io_properties)
    constants = _identity_constants(metadata, job)
    inputs = [file.path for file in job.read_files]
    sums = RowSums(metadata.schema(), metadata.name_mapping(), job.named_files, inputs, job.equality_deletes)
    deleted = deleted_rows(io, job, metadata, constants, sums)
    told.read(0, job.read_bytes - sum(file.size_bytes for file in job.data_files))
    ordering = _ordering(io, job, metadata, constants)
    division = Division.of(job, metadata, constants)
    passed = NONE_PASSED if ordering or division else pass_through(io, job, metadata, deleted, sums, told)
    rest = {number: file for number, file in enumerate(job.data_files) if number not in passed.numbers}
    live_rows = sum(file.rows - deleted.count(file) for file in rest.values())
    output = _output(io, job, metadata, rest.values(), live_rows, len(passed.files), division)
    order = ordering if division is None or division.is_of_one else ByPartition(division, ordering)
    anew, found = _rewritten(io, rest, metadata, constants, deleted, sums, output, order, told)
    written, found = [*passed.files, *anew], [*passed.found, *found]
    merged = merged_deletes(io, job, metadata, deleted, sums, len(written))
    sums.close()
    back = [*(passed_back(io, file) for file in passed.files), *_read_back(io, metadata, anew)]
    return Rewrite(
        job_id=job.job_id,
        files=tuple(written),
        rows_read=sum(tally.rows for tally in found),
        rows_deleted=sum(tally.rows - tally.live for tally in found),
        hash_read=sum(tally.hash for tally in found) % HASH_MODULUS,
        hash_written=sum(tally.hash for tally in back) % HASH_MODULUS,
        rows_written=sum(tally.rows for tally in back),
        bytes_read=job.read_bytes,
        bytes_written=sum(file.size_bytes for file in (*written, *merged.files)),
        seconds=monotonic_s() - started,
        peak_memory_bytes=_peak_memory_bytes(),
        schema_id=metadata.current_schema_id,
        name_mapping=name_mapping_of(metadata),
        merged=merged,
        has_row_ids=metadata.format_version >= WITH_ROW_IDS,
        sort_order_id=ordering.order_id if isinstance(ordering, Ordering) else 0,
    )


def _ordering(
    io: FileIO, job: CompactionJob, metadata: TableMetadata, constants: Mapping[int, Any]
) -> Comparing | None:
    """By what the rows of the new files are sorted, or None: they stay in the order of their files."""
    asked = job.asked_order
    if asked is None:
        return Ordering.of(metadata, job.sort_order_id)
    return (
        Curve.of(io, job, metadata, constants, asked) if asked.is_zorder else Ordering.asked(metadata, asked)
    )


def _rewritten(
    io: FileIO,
    files: Mapping[int, LiveFile],
    metadata: TableMetadata,
    constants: Mapping[int, Any],
    deleted: Deleted,
    sums: RowSums,
    output: Output | DividedOutput,
    ordering: Comparing | None,
    told: Told,
) -> tuple[list[WrittenFile], list[Tally]]:
    """The new files of data files of these numbers, and what DuckDB has found in each of the old ones."""
    schema, mapping = metadata.schema(), metadata.name_mapping()
    wanted = {field.field_id for field in schema.fields}
    in_order = None if ordering is None else Sorted(ordering, output.arrow)
    put = _putting(output, in_order)
    found: list[Tally] = []
    try:
        near = in_turn(io, list(files.values()))
        for group in _together(files, len(schema.field_ids)):
            with ExitStack() as open_files, ThreadPoolExecutor(1) as beside:
                paths: dict[int, str] = {}
                for number, file in group.items():
                    with blaming(file.path):
                        paths[number] = open_files.enter_context(next(near))
                # Both engines release the interpreter: the second core sums while this one writes.
                tallies = beside.submit(_summed, sums, group, paths, constants)
                for number, file in group.items():
                    with blaming(file.path):
                        source = Source(paths[number], file, wanted, mapping)
                        for rows in _live_rows(source, file, deleted, schema, output.arrow, constants, told):
                            with writing():
                                put(rows)
                            told.written(*output.so_far)
                found += tallies.result()
        with writing():
            for rows in () if in_order is None else in_order.rows():
                output.write(rows)
                told.written(*output.so_far)
            files_written = output.finish()
            told.written(*output.so_far)
            return _as_written(files_written, output), found
    except BaseException:
        output.abandon()
        raise
    finally:
        if in_order is not None:
            in_order.close()


def _putting(output: Output | DividedOutput, in_order: Sorted | None) -> Callable[[pa.RecordBatch], None]:
    """Where rows go as they are read."""
    add = output.write if in_order is None else in_order.add
    if not isinstance(output, DividedOutput):
        return add

    def counted(rows: pa.RecordBatch) -> None:
        output.count(rows)
        add(rows)

    return counted


def _together(files: Mapping[int, LiveFile], columns: int) -> Iterator[dict[int, LiveFile]]:
    """Files that are open at once, by their numbers, in their order: small ones share what one query takes."""
    group: dict[int, LiveFile] = {}
    most = max(min(OPEN_FILES, OPEN_COLUMNS // columns), 1)
    for number, file in files.items():
        size_bytes = sum(one.size_bytes for one in group.values()) + file.size_bytes
        if group and (len(group) >= most or size_bytes > OPEN_BYTES):
            yield group
            group = {}
        group[number] = file
    if group:
        yield group


def _summed(
    sums: RowSums, files: Mapping[int, LiveFile], paths: Mapping[int, str], constants: Mapping[int, Any]
) -> list[Tally]:
    """What DuckDB finds in each of some files. Which of them cannot be read, each says by itself."""
    with suppress(duckdb.Error):
        return sums.sum(paths, constants)
    found: list[Tally] = []
    for number, file in files.items():
        with blaming(file.path):
            found += sums.sum({number: paths[number]}, constants)
    return found


def _live_rows(
    source: Source,
    file: LiveFile,
    deleted: Deleted,
    target: Schema,
    arrow: pa.Schema,
    constants: Mapping[int, Any],
    told: Told,
) -> Iterator[pa.RecordBatch]:
    """The rows of a file that no delete removes, as the table has them now."""
    start = 0
    for batch in source.batches():
        rows, positions = deleted.staying(file, start, batch)
        end = start + batch.num_rows
        told.read(batch.num_rows, part_of(file.size_bytes, file.rows, start, end))
        start = end
        yield filled(project(rows, source.columns, target, arrow, constants), file, positions)


def _output(
    io: FileIO,
    job: CompactionJob,
    metadata: TableMetadata,
    files: Collection[LiveFile],
    live_rows: int,
    first_number: int,
    division: Division | None,
) -> Output | DividedOutput:
    """For so many rows of some files. The files of the job's that are written already have the numbers below the first."""
    rows = sum(file.rows for file in files)

    def made(expected_rows: int, first: int) -> Output:
        return Output(
            io,
            metadata,
            lambda number: data_location(job, metadata, first + number),
            job.target_size_bytes,
            expected_rows=expected_rows,
            bytes_per_row=sum(file.size_bytes for file in files) / max(rows, 1),
        )

    return made(live_rows, first_number) if division is None else DividedOutput(division, made, live_rows)


def _read_back(io: FileIO, metadata: TableMetadata, written: Sequence[WrittenFile]) -> list[Tally]:
    """What storage gives back of each file that was written, which must lie in the partition for which it was."""
    sums = RowSums(metadata.schema(), None, locations=[file.path for file in written])
    fields, schema = partition_fields(metadata), metadata.schema()
    for file in written:
        if file.partition is not None and (why := lies_elsewhere(file, fields)):
            raise RefusalError(Reason.MISMATCH, why)
    return [sums.verified(io, told_of(file, fields, schema)) for file in written]


def _as_written(files: Sequence[NewFile], output: Output | DividedOutput) -> list[WrittenFile]:
    partitions: Sequence[PartitionKey | None] = [None] * len(files)
    if isinstance(output, DividedOutput):
        partitions = output.partitions
    return [
        WrittenFile(file.path, file.size_bytes, file.rows, **asdict(file.statistics), partition=partition)
        for file, partition in zip(files, partitions, strict=True)
    ]


def attempt(
    job: CompactionJob, description: str, io_properties: Mapping[str, str], told: Told = NOBODY
) -> Rewrite | Refusal:
    """The rewrite, or why there is none; raises nothing."""
    pa.set_cpu_count(1)
    try:
        return rewrite(job, description, io_properties, told)
    except RefusalError as err:
        return err.refusal
    except duckdb.OutOfMemoryException:
        return Refusal(Reason.OUT_OF_MEMORY, out_of_memory(table_of(description).schema()))
    except MemoryError as err:
        return Refusal(Reason.OUT_OF_MEMORY, f"out of memory: {err}")
    except Exception as err:  # noqa: BLE001 (the process ends here, and the reason must get out)
        return Refusal(Reason.UNEXPECTED, f"{type(err).__name__}: {err}")


def _identity_constants(metadata: TableMetadata, job: CompactionJob) -> dict[int, Any]:
    """Values of columns that data files may lack because their partition says them (tables that came from Hive).

    None is a value too: rows of that partition have none.
    """
    spec = metadata.specs()[job.spec_id]
    values = partition_record(metadata, job.spec_id, job.partition)
    return {
        one.source_id: values[place]
        for place, one in enumerate(spec.fields)
        if isinstance(one.transform, IdentityTransform)
    }


def files_of(metadata: TableMetadata, io_properties: Mapping[str, str]) -> FileIO:
    """The table's files; its own properties choose neither code nor hosts nor keys."""
    return load_file_io(properties_with_retries(io_properties), metadata.location)


def _peak_memory_bytes() -> int:
    """The most that this process held. getrusage would count what the parent held when it forked."""
    try:
        status = Path("/proc/self/status").read_text(encoding="utf-8")
    except OSError:
        return 0
    found = [line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:")]
    return int(found[0]) * 1024 if found else 0
