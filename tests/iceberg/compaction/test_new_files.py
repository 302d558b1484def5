"""The files that a rewrite writes: their size, their encoding, and what the properties of a table ask of them."""

from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support.one_partition import NAME, OURS, on_disk
from support.rewriting import bound, cleaned, rewritten


@pytest.mark.parametrize("files", [1, 2, 3, 7])
@pytest.mark.parametrize("values", ["unique", "few"])
def test_files_come_out_within_a_tenth_of_the_target_size(catalog: Any, files: int, values: str) -> None:
    table, chance = catalog.load_table(NAME), Random(7)
    for _ in range(24):
        ids = [
            chance.getrandbits(62) if values == "unique" else chance.randrange(1000) for _ in range(20_000)
        ]
        table.append(pa.table({"id": ids, "part": ["a b/c"] * 20_000}))
    (whole,) = rewritten(table, bound(table, OURS)).files
    job = bound(table, OURS, target_size_bytes=whole.size_bytes // files)

    result = rewritten(table, job)

    assert result.rows_written == 480_060
    target = job.target_size_bytes
    sizes = [file.size_bytes for file in result.files]
    assert max(sizes) <= 1.1 * min(sizes)
    if values == "unique":
        assert files == len(sizes)
        assert [one / target for one in sizes if not 0.9 * target <= one <= 1.1 * target] == []
    # Small row groups take more for the same values.
    assert [one / target for one in sizes if not 0.8 * target <= one <= 1.6 * target] == []
    assert sizes == [Path(file.path.removeprefix("file://")).stat().st_size for file in result.files]
    cleaned(table, job)
    assert on_disk(catalog, job) == []


def test_a_dictionary_is_made_only_where_it_pays(catalog: Any) -> None:
    """Of a column of keys it would be as large as the keys, and thrown away when it is full."""
    table = catalog.load_table(NAME)
    for number in range(2):
        ids = [(number * 100_000 + one) * 2654435761 % 2**62 for one in range(100_000)]
        table.append(pa.table({"id": ids, "part": ["a b/c"] * 100_000}))

    (file,) = rewritten(table, bound(table, OURS)).files

    group = pq.ParquetFile(file.path.removeprefix("file://")).metadata.row_group(0)
    assert [False, True] == [group.column(number).has_dictionary_page for number in range(2)]


def test_properties_of_the_table_are_honoured(catalog: Any, tmp_path: Path) -> None:
    table = catalog.load_table(NAME)
    properties = {
        "write.parquet.compression-codec": "gzip",
        "write.parquet.row-group-limit": "25",
        "write.metadata.metrics.default": "none",
        "write.metadata.metrics.column.id": "full",
        "write.data.path": f"file://{tmp_path}/elsewhere",
    }
    table.transaction().set_properties(properties).commit_transaction()
    job = bound(table.refresh(), OURS)

    (file,) = rewritten(table, job).files

    assert f"file://{tmp_path}/elsewhere/part=a+b%2Fc/isotherm-{job.job_id}-00000.parquet" == file.path
    parquet = pq.ParquetFile(file.path.removeprefix("file://")).metadata
    assert parquet.row_group(0).column(0).compression == "GZIP"
    assert [parquet.row_group(number).num_rows for number in range(parquet.num_row_groups)] == [25, 25, 10]
    assert ({1}, {1}) == (set(file.lower_bounds), set(file.value_counts))


WRITTEN = {
    "UNCOMPRESSED": "UNCOMPRESSED",
    "Gzip": "GZIP",
    "lz4": "LZ4",
    "lzo": "ZSTD",
}


@pytest.mark.parametrize("asked", WRITTEN)
def test_what_a_table_asks_of_its_files_is_written(catalog: Any, asked: str) -> None:
    table = catalog.load_table(NAME)
    properties = {
        "write.parquet.compression-codec": asked,
        # As zstd knows it, and none of these.
        "write.parquet.compression-level": "19",
        "write.parquet.bloom-filter-enabled.column.id": "true",
        "write.parquet.bloom-filter-enabled.column.nowhere": "true",
    }
    table.transaction().set_properties(properties).commit_transaction()

    (file,) = rewritten(table.refresh(), bound(table, OURS)).files

    path = file.path.removeprefix("file://")
    group = pq.ParquetFile(path).metadata.row_group(0)
    assert [WRITTEN[asked]] * 2 == [group.column(place).compression for place in (0, 1)]
    assert [True] * 2 == [group.column(place).has_offset_index for place in (0, 1)]
    found = duckdb.sql(
        f"SELECT path_in_schema FROM parquet_metadata('{path}') WHERE bloom_filter_offset IS NOT NULL"
    ).fetchall()
    assert found == [("id",)]


@pytest.mark.parametrize("value", ["", "128mb", "-1", "0", "1.5", "9" * 30, "\u0663"])
def test_a_number_that_is_none_is_passed_over(catalog: Any, value: str) -> None:
    table = catalog.load_table(NAME)
    names = (
        *("row-group-size-bytes", "row-group-limit", "page-size-bytes", "page-row-limit", "dict-size-bytes"),
        *("compression-level", "bloom-filter-max-bytes", "bloom-filter-fpp.column.id"),
    )
    properties = {f"write.parquet.{name}": value for name in names}
    properties["write.parquet.bloom-filter-enabled.column.id"] = "true"
    table.transaction().set_properties(properties).commit_transaction()

    (file,) = rewritten(table.refresh(), bound(table, OURS)).files

    assert pq.read_metadata(file.path.removeprefix("file://")).num_rows == file.rows
