"""Data files of about the target size each, judged by what is on disk.

What is to come is divided evenly, so that no file is much larger or smaller than the others. One row group at a time is
in memory.
"""

import contextlib
import math
import warnings
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import _get_parquet_writer_kwargs, parquet_path_to_id_mapping, schema_to_pyarrow
from pyiceberg.schema import Schema, sanitize_column_names
from pyiceberg.table import TableProperties
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.types import BooleanType, UUIDType
from pyiceberg.utils.properties import property_as_int

from isotherm.parquet.statistics import Statistics, nan_counts, statistics

ROW_GROUP_BYTES = 128 * 1024 * 1024
"""A row group never takes more than this in memory, whatever the table asks for: it is the bulk of what we hold."""

ONE_MORE_FROM = 0.6
"""One more file is begun for this part of a target: with two, each has 0.8 of it, and is left alone afterwards."""

FULL = 0.95
"""A file of this part of its size is closed: no row group is written for the rest."""

SAMPLED_ROWS = 200_000
"""By so many rows it is decided whether a column has a dictionary."""

PARTS = 10
"""A tenth of them is looked at first, from ten places."""

ALMOST_ALL, ALMOST_NONE = 0.95, 0.05
"""Of what is looked at first, distinct values that say it of all: of 20,000 values from among 100,000, drawn with equal
chances, 18,100 are distinct, and a dictionary would still pay."""

BLOOM_FALSE_POSITIVES = 0.01
"""Java's own."""


@dataclass(frozen=True, slots=True)
class NewFile:
    """A data file that no table knows yet."""

    path: str
    size_bytes: int
    rows: int
    statistics: Statistics


class Output:
    """Writes rows into files of a table."""

    def __init__(
        self,
        io: FileIO,
        metadata: TableMetadata,
        name: Callable[[int], str],
        target_size_bytes: int,
        expected_rows: int,
        bytes_per_row: float,
        schema: Schema | None = None,
        least_group_rows: int = 1,
    ) -> None:
        """Nothing is written before the first rows.

        Args:
            io: the table's files.
            metadata: of the table.
            name: the location of the file with this number.
            target_size_bytes: of a file, as it is on disk.
            expected_rows: that will come.
            bytes_per_row: that a row takes on disk, as far as one can know before.
            schema: of the files, where they have more columns at their end than the table.
            least_group_rows: of a row group, whatever the table asks for.
        """
        self.schema = sanitize_column_names(schema or metadata.schema())
        self.arrow = schema_to_pyarrow(self.schema)
        self._io, self._metadata, self._name, self._target = io, metadata, name, target_size_bytes
        self._rows_to_come = expected_rows
        # What large files take for a row is only known when one is written; small ones take a little more.
        self._bytes_per_row = bytes_per_row
        self._rows_written = self._bytes_written = 0
        """In files that are closed."""
        self._done: list[NewFile] = []
        self._pending: list[pa.RecordBatch] = []
        self._pending_rows = self._pending_bytes = 0
        self._sink: Any = None
        self._writer: Any = None
        self._rows = 0
        self._nans: Counter[int] = Counter()
        """Of the open file, by field id."""
        asked = understood(metadata.properties)
        self._group_bytes = min(
            property_as_int(
                asked,
                TableProperties.PARQUET_ROW_GROUP_SIZE_BYTES,
                TableProperties.PARQUET_ROW_GROUP_SIZE_BYTES_DEFAULT,
            )
            or ROW_GROUP_BYTES,
            ROW_GROUP_BYTES,
            target_size_bytes,
        )
        self._group_rows = max(
            property_as_int(
                asked,
                TableProperties.PARQUET_ROW_GROUP_LIMIT,
                TableProperties.PARQUET_ROW_GROUP_LIMIT_DEFAULT,
            )
            or TableProperties.PARQUET_ROW_GROUP_LIMIT_DEFAULT,
            least_group_rows,
        )
        self._rows_wanted = self._still_wanted()

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows; a full row group goes out, and a full file is closed."""
        start = 0
        while start < batch.num_rows:
            most = min(self._group_rows, self._rows_wanted)
            part = self._fitting(batch.slice(start, most - self._pending_rows))
            start += part.num_rows
            self._pending.append(part)
            self._pending_rows += part.num_rows
            self._pending_bytes += part.nbytes
            if self._pending_bytes >= self._group_bytes or self._pending_rows >= most:
                self._flush()
                if not self._rows_wanted:
                    self._close()
                    self._rows_wanted = self._still_wanted()

    @property
    def so_far(self) -> tuple[int, int]:
        """How many rows and bytes have gone out."""
        size = self._sink.tell() if self._writer is not None else 0
        return self._rows_written + self._rows, self._bytes_written + size

    def _fitting(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The first of some rows, as many as the row group has room for: of what was sorted, 64 MiB come at once."""
        room = max(self._group_bytes - self._pending_bytes, self._group_bytes // 16)
        while rows.nbytes > room and rows.num_rows > 1:
            rows = rows.slice(0, (rows.num_rows + 1) // 2)
        return rows

    def finish(self) -> list[NewFile]:
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
            self._open(rows)
        self._writer.write_table(rows, row_group_size=self._group_rows)
        self._rows += rows.num_rows
        self._nans.update(nan_counts(rows, self.schema))
        self._rows_to_come -= rows.num_rows
        written = self._bytes_written + self._sink.tell()
        self._bytes_per_row = written / (self._rows_written + self._rows)
        self._rows_wanted = self._still_wanted()

    def _still_wanted(self) -> int:
        """How many rows the present file is still to take, or 0 if it is full."""
        size = self._sink.tell() if self._writer is not None else 0
        all_bytes = size + self._rows_to_come * self._bytes_per_row
        files = files_for(all_bytes, self._target)
        if files == 1:
            # More than is expected is a mistake, which is found later.
            return self._rows_to_come or self._group_rows
        goal = all_bytes / files
        if size >= FULL * goal:
            return 0
        return max(round((goal - size) / self._bytes_per_row), 1)

    def _open(self, rows: pa.Table) -> None:
        """Begin a file, whose first row group this is."""
        location = self._name(len(self._done))
        self._sink = self._io.new_output(location).create()
        self._location = location
        options = writer_options(self._metadata.properties)
        self._writer = pq.ParquetWriter(
            self._sink,
            self.arrow,
            store_decimal_as_integer=True,
            store_schema=False,
            # As Java does always: readers pass over pages by it, and a damaged page is known without decoding it.
            write_page_index=True,
            write_page_checksum=True,
            write_statistics=_with_statistics(self.schema),
            bloom_filter_options=bloom_filters(self._metadata, self.schema, rows.num_rows),
            use_dictionary=_dictionaries(self.schema, rows, options["dictionary_pagesize_limit"]),
            **options,
        )

    def _close(self) -> None:
        if self._writer is None:
            return
        self._writer.close()
        size = self._sink.tell()
        self._sink.close()
        # By the table's own names, as its properties know them.
        schema, properties = self._metadata.schema(), self._metadata.properties
        found = statistics(self._writer.writer.metadata, schema, properties, self._nans)
        self._done.append(NewFile(self._location, size, self._rows, found))
        self._rows_written += self._rows
        self._bytes_written += size
        self._writer = self._sink = None
        self._rows, self._nans = 0, Counter()


def files_for(all_bytes: float, target_size_bytes: int) -> int:
    """How many files are made of so many bytes."""
    return max(int(all_bytes / target_size_bytes + 1 - ONE_MORE_FROM), 1)


def _with_statistics(written: Schema) -> list[str]:
    """The paths of the columns whose extremes the footer has: of all but UUIDs.

    Parquet orders UUIDs by their bytes, and Iceberg's Java, up to 1.12, takes the extremes for those of signed numbers.
    A filter passes over each row group then that has some of both signs.
    """
    paths = parquet_path_to_id_mapping(written).items()
    return [path for path, field_id in paths if not isinstance(written.find_type(field_id), UUIDType)]


def _dictionaries(written: Schema, rows: pa.Table, limit_bytes: int) -> list[str]:
    """The paths of the columns for which a dictionary pays, by the rows of a row group.

    Where most values are there once, it makes a file larger: a dictionary of `limit_bytes`, and what refers to it, are
    written before the writer gives it up, in each row group.
    """
    sample = rows.slice(0, SAMPLED_ROWS)
    plain = {name for name in sample.column_names if not _pays(sample.column(name), limit_bytes)}
    return [path for path in parquet_path_to_id_mapping(written) if path not in plain]


def _pays(values: pa.ChunkedArray, limit_bytes: int) -> bool:
    if pa.types.is_nested(values.type):
        # Its parts are columns of their own, of which nothing is known here.
        return True
    if isinstance(values.type, pa.BaseExtensionType):
        values = pa.chunked_array([chunk.storage for chunk in values.chunks], values.type.storage_type)
    width = values.nbytes / max(len(values), 1)
    # To count them all takes as long as a fifth of the writing. Mostly a tenth of them says it.
    few = _here_and_there(values)
    distinct, known = pc.count_distinct(few).as_py(), len(few) - few.null_count
    if distinct > ALMOST_ALL * known or distinct * width > limit_bytes:
        return False
    if 0 < distinct <= ALMOST_NONE * known and distinct * width * PARTS <= limit_bytes:
        return True
    distinct, known = pc.count_distinct(values).as_py(), len(values) - values.null_count
    return bool(distinct <= known / 2 and distinct * width <= limit_bytes)


def _here_and_there(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """A tenth of the values, from as many places: neighbours may be alike, and so may rows that came together."""
    every, length = len(values) // PARTS, -(-len(values) // PARTS**2)
    chunks = [chunk for part in range(PARTS) for chunk in values.slice(part * every, length).chunks]
    return pa.chunked_array(chunks, values.type)


_CODECS = {
    "uncompressed": "none",
    "none": "none",
    "snappy": "snappy",
    "gzip": "gzip",
    "zstd": "zstd",
    "lz4": "lz4",
}
"""Codecs by their names in `write.parquet.compression-codec`, which Java takes in any case, and PyArrow's for them."""


_LEVELS = {"gzip": range(1, 10), "zstd": range(-7, 23)}
"""The levels of compression that a codec knows. Java passes over a level where there is none."""


def writer_options(properties: Mapping[str, str]) -> dict[str, Any]:
    """What PyIceberg makes of the table's properties; a codec that PyArrow cannot write becomes zstd.

    A level that the codec does not know is left out: it may be meant for the codec of other files.
    """
    name = TableProperties.PARQUET_COMPRESSION
    codec = properties.get(name, TableProperties.PARQUET_COMPRESSION_DEFAULT).lower()
    with warnings.catch_warnings():
        # It warns of each property that its own writer does not know; once a file is noise.
        warnings.simplefilter("ignore")
        options = _get_parquet_writer_kwargs(understood(properties))
    compression = _CODECS.get(codec, "zstd")
    level = options["compression_level"]
    is_known = level in _LEVELS.get(compression, ())
    return {**options, "compression": compression, "compression_level": level if is_known else None}


def understood(properties: Mapping[str, str]) -> dict[str, str]:
    """The table's properties without numbers for Parquet that are none, or too small: files are written as if nothing was said."""
    return {
        name: value
        for name, value in properties.items()
        if name not in _COUNTS or (value.isascii() and value.isdecimal() and 0 < int(value) < 2**31)
    }


_COUNTS = (
    TableProperties.PARQUET_ROW_GROUP_SIZE_BYTES,
    TableProperties.PARQUET_ROW_GROUP_LIMIT,
    TableProperties.PARQUET_PAGE_SIZE_BYTES,
    TableProperties.PARQUET_PAGE_ROW_LIMIT,
    TableProperties.PARQUET_DICT_SIZE_BYTES,
    TableProperties.PARQUET_COMPRESSION_LEVEL,
    TableProperties.PARQUET_BLOOM_FILTER_MAX_BYTES,
)


def _chance(said: str) -> float:
    """How often a Bloom filter may be wrong: as the table says, or as Java does where that is no part of one."""
    try:
        chance = float(said)
    except ValueError:
        return BLOOM_FALSE_POSITIVES
    return chance if 1e-9 <= chance < 1 else BLOOM_FALSE_POSITIVES


def bloom_filters(metadata: TableMetadata, written: Schema, rows: int) -> dict[str, dict[str, Any]] | None:
    """The Bloom filters that the table asks for, by the paths of their columns; for as many values as a group has rows.

    None is larger than `write.parquet.bloom-filter-max-bytes`: then it finds more that is not there, as Java's do.
    """
    properties, schema = understood(metadata.properties), metadata.schema()
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
        wrong = _chance(properties.get(f"write.parquet.bloom-filter-fpp.column.{name}", ""))
        bytes_per_value = -1 / math.log(1 - wrong ** (1 / 8))
        options[path] = {
            "ndv": max(min(rows, int((most_bytes or 0) / bytes_per_value)), 1),
            "fpp": wrong,
        }
    return options or None
