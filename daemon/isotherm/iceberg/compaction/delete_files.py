"""Position deletes on files that stay: many delete files become one, and a second engine proves that it says the same.

The new file names every row that the old ones removed and that is there, once, in the order that the specification asks
for (by path, then by position). What the old ones say of files that are gone, or of rows behind a file's end, is left
out. It is written for the whole partition, whatever `write.delete.granularity` says: that is about what writers leave.
"""

from collections.abc import Iterator
from dataclasses import asdict

import pyarrow as pa
from pyiceberg.io import FileIO
from pyiceberg.schema import Schema
from pyiceberg.table import TableProperties
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.types import LongType, NestedField, StringType

from isotherm.core.model.job_limits import MERGED_FILE_BYTES
from isotherm.core.model.jobs import NOTHING_MERGED, CompactionJob, MergedDeletes, WrittenFile
from isotherm.iceberg.compaction.deleted_rows import Deleted
from isotherm.iceberg.compaction.failures import writing
from isotherm.iceberg.compaction.names import data_location
from isotherm.iceberg.compaction.row_sums import HASH_MODULUS, RowSums
from isotherm.iceberg.manifests.live import DELETE_FILE_PATH
from isotherm.parquet.output import Output

DELETED_ROWS = Schema(
    NestedField(DELETE_FILE_PATH, "file_path", StringType(), required=True),
    NestedField(2147483545, "pos", LongType(), required=True),
)
"""The columns of a position-delete file, as the specification has them."""

BATCH_ROWS = 65_536
"""A path of two hundred bytes is there for each row: 13 MB."""

BYTES_PER_ROW = 4
"""What a row takes, before one is written: a position that a dictionary and a codec have made small."""

_OF_DELETES = {
    "write.delete.parquet.compression-codec": TableProperties.PARQUET_COMPRESSION,
    "write.delete.parquet.compression-level": TableProperties.PARQUET_COMPRESSION_LEVEL,
}
"""What a table says of delete files, where it says more than of data files."""


def merged_deletes(
    io: FileIO, job: CompactionJob, metadata: TableMetadata, deleted: Deleted, sums: RowSums, number: int
) -> MergedDeletes:
    """Write what the job's delete files say of the files that stay.

    Args:
        io: the table's files.
        job: what is read.
        metadata: of the table.
        deleted: the positions, as Arrow reads them.
        sums: the same, as DuckDB does.
        number: of the first file that is written.
    """
    if not job.merges_deletes:
        return NOTHING_MERGED
    first = len(job.data_files)
    staying = {first + place: file for place, file in enumerate(job.staying)}
    read = sums.deletes_on(staying, by_keys=job.converts_equality)
    written = _write(io, job, metadata, deleted, number)
    back = RowSums(DELETED_ROWS, None, locations=[file.path for file in written])
    tallies = [back.verified(io, file) for file in written]
    back.close()
    return MergedDeletes(
        files=tuple(written),
        positions_read=read.rows,
        positions_written=sum(tally.rows for tally in tallies),
        hash_read=read.hash % HASH_MODULUS,
        hash_written=sum(tally.hash for tally in tallies) % HASH_MODULUS,
    )


def _write(
    io: FileIO, job: CompactionJob, metadata: TableMetadata, deleted: Deleted, number: int
) -> list[WrittenFile]:
    output = Output(
        io,
        _of_deletes(metadata),
        lambda place: data_location(job, metadata, number + place),
        MERGED_FILE_BYTES,
        expected_rows=sum(deleted.count(file) for file in job.staying),
        bytes_per_row=BYTES_PER_ROW,
    )
    try:
        with writing():
            for rows in _rows(job, deleted, output.arrow):
                output.write(rows)
            return [
                WrittenFile(one.path, one.size_bytes, one.rows, **asdict(one.statistics))
                for one in output.finish()
            ]
    except BaseException:
        output.abandon()
        raise


def _rows(job: CompactionJob, deleted: Deleted, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The deleted rows of files that stay, which come in the order of their paths."""
    for file in job.staying:
        positions = deleted.positions(file)
        for start in range(0, len(positions), BATCH_ROWS):
            part = positions[start : start + BATCH_ROWS]
            paths = pa.repeat(pa.scalar(file.path, schema.field(0).type), len(part))
            yield pa.RecordBatch.from_arrays([paths, pa.array(part, pa.int64())], schema=schema)


def _of_deletes(metadata: TableMetadata) -> TableMetadata:
    """The table as if its rows were deletes: whole paths in the bounds, because readers choose delete files by them."""
    properties = metadata.properties
    mine = {
        name: value for name, value in properties.items() if not name.startswith("write.metadata.metrics.")
    }
    own = {_OF_DELETES[name]: value for name, value in properties.items() if name in _OF_DELETES}
    return metadata.model_copy(
        update={
            "schemas": [DELETED_ROWS],
            "current_schema_id": DELETED_ROWS.schema_id,
            "properties": {
                **mine,
                **own,
                "write.metadata.metrics.default": "full",
            },
        }
    )
