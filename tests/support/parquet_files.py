"""Small Parquet files of every layout in which row groups may be copied, as PyArrow and DuckDB write them."""

import datetime as dt
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from isotherm.core.model.jobs import WrittenFile
from isotherm.iceberg.compaction.group_sums import group_sums
from isotherm.iceberg.compaction.row_sums import HASH_MODULUS
from isotherm.parquet.footer import MAGIC, read_footer
from isotherm.parquet.pages import check_group
from isotherm.parquet.row_groups import Layout, RowGroups

PLAIN = {"write_page_index": False, "compression": "zstd"}
LAYOUTS: dict[str, dict[str, Any]] = {
    "plain": PLAIN,
    "not packed": {**PLAIN, "compression": "none"},
    "snappy": {**PLAIN, "compression": "snappy"},
    "gzip": {**PLAIN, "compression": "gzip"},
    "lz4": {**PLAIN, "compression": "lz4"},
    "without dictionaries": {**PLAIN, "use_dictionary": False},
    "pages of version 2": {**PLAIN, "data_page_version": "2.0"},
    "several pages": {**PLAIN, "data_page_size": 200, "write_batch_size": 16},
    "indexes": {**PLAIN, "write_page_index": True, "data_page_size": 200, "write_batch_size": 16},
    "indexes of pages of version 2": {
        **PLAIN,
        "write_page_index": True,
        "data_page_version": "2.0",
        "data_page_size": 200,
        "write_batch_size": 16,
    },
    "checksums": {**PLAIN, "write_page_checksum": True, "data_page_size": 200, "write_batch_size": 16},
    "Bloom filters": {
        **PLAIN,
        "write_page_index": True,
        "bloom_filter_options": {"id": {"ndv": 100, "fpp": 0.01}, "text": {"ndv": 100, "fpp": 0.01}},
    },
    "without statistics": {**PLAIN, "write_statistics": False},
    "sorted": {**PLAIN, "sorting_columns": [pq.SortingColumn(0)]},
    "Arrow's own schema": {**PLAIN, "store_schema": True},
    "decimals as numbers": {**PLAIN, "store_decimal_as_integer": True},
    "deltas": {
        **PLAIN,
        "use_dictionary": False,
        "column_encoding": {"id": "DELTA_BINARY_PACKED", "text": "DELTA_BYTE_ARRAY"},
    },
}
"""Arguments for PyArrow's writer."""
BY_DUCKDB = {
    "DuckDB": "CODEC zstd",
    "DuckDB's newer encodings": "CODEC snappy, PARQUET_VERSION v2",
}
"""Options of DuckDB's COPY."""
EVERY = (*LAYOUTS, *BY_DUCKDB)


def rows(seed: int, count: int = 300) -> pa.Table:
    """Rows of every kind of type."""
    chance = Random(seed)

    def some(value: Any) -> Any:
        return None if chance.random() < 0.2 else value

    def column(value: Any) -> list[Any]:
        return [some(value(number)) for number in range(count)]

    day = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    return pa.table(
        {
            "id": pa.array(range(seed * count, (seed + 1) * count), pa.int64()),
            "text": pa.array(column(lambda one: f"text {chance.randrange(40)} {one % 3}"), pa.string()),
            "price": pa.array(column(lambda _: Decimal(chance.randrange(10**6)) / 100), pa.decimal128(9, 2)),
            "at": pa.array(column(lambda one: day + dt.timedelta(minutes=one)), pa.timestamp("us", "UTC")),
            "half": pa.array(
                column(lambda one: float("nan") if one % 50 == 7 else chance.random()), pa.float64()
            ),
            "flag": pa.array(column(lambda one: one % 3 == 0), pa.bool_()),
            "raw": pa.array(column(lambda one: chance.randbytes(one % 9)), pa.binary()),
            "list": pa.array(
                column(lambda one: [some(item) for item in range(one % 4)]), pa.list_(pa.int64())
            ),
            "map": pa.array(
                column(lambda one: [(f"k{item}", some(item)) for item in range(one % 3)]),
                pa.map_(pa.string(), pa.int64()),
            ),
            "inner": pa.array(
                column(lambda one: {"x": some(one), "y": some(f"y{one % 5}")}),
                pa.struct([("x", pa.int32()), ("y", pa.string())]),
            ),
        }
    )


def write(path: Path, layout: str, seed: int, row_group_rows: int = 100) -> Path:
    """A file of three row groups."""
    table = rows(seed)
    if layout in LAYOUTS:
        # Arrow's own schema would be a key in every footer.
        options = {"store_schema": False, **LAYOUTS[layout]}
        pq.write_table(table, path, row_group_size=row_group_rows, **options)
    else:
        with duckdb.connect() as connection:
            # It fills vectors of 2,048 values.
            connection.register("t", pa.concat_tables([table] * 20))
            connection.execute(
                f"COPY t TO '{path}' (FORMAT parquet, ROW_GROUP_SIZE 2048, {BY_DUCKDB[layout]})"
            )
    return path


def laid_out(sources: Sequence[Path]) -> Layout:
    """One file of the row groups of some others, which are looked at before."""
    groups: RowGroups | None = None
    for source in sources:
        with source.open("rb") as stream:
            footer = read_footer(stream)
            for group in footer.groups:
                check_group(stream, group)
            groups = groups or RowGroups(footer)
            groups.add(stream, footer)
    assert groups is not None
    return groups.laid_out()


def copied(sources: Sequence[Path], path: Path) -> pq.FileMetaData:
    """The same, written. Returns its footer."""
    layout = laid_out(sources)
    with path.open("wb") as sink:
        sink.write(MAGIC)
        for number, source in enumerate(sources):
            with source.open("rb") as stream:
                sink.writelines(layout.copied(number, stream))
        sink.write(layout.behind)
    assert layout.size_bytes == path.stat().st_size
    return layout.footer


def summed(paths: Sequence[Path]) -> tuple[int, int]:
    """The rows of some files, and the sum of the hashes of their row groups."""
    tallies = [group_sums(str(path)) for path in paths]
    return sum(one.rows for one in tallies), sum(one.hash for one in tallies) % HASH_MODULUS


def local(file: WrittenFile) -> Path:
    """Where a new file of a table on this machine lies."""
    return Path(file.path.removeprefix("file://"))
