"""The files that a job writes: about the target size each, judged by what is on disk.

One row group at a time is in memory.
"""

import contextlib
import math
import warnings
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import _get_parquet_writer_kwargs, parquet_path_to_id_mapping, schema_to_pyarrow
from pyiceberg.schema import Schema, sanitize_column_names
from pyiceberg.table import TableProperties
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.types import BooleanType
from pyiceberg.utils.properties import property_as_int

from isotherm.core.model.jobs import CompactionJob, WrittenFile
from isotherm.iceberg.compaction.binding import KEEP_FRACTION
from isotherm.iceberg.compaction.names import data_location
from isotherm.iceberg.compaction.statistics import statistics

ROW_GROUP_BYTES = 128 * 1024 * 1024
"""A row group never takes more than this in memory, whatever the table asks for: it is the bulk of what we hold."""

BLOOM_FALSE_POSITIVES = 0.01
"""Java's own."""


class Output:
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
        self._sink = self._io.new_output(location).create()
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
