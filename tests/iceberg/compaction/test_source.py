"""How rows are read from a file: so many at a time that they take little memory, however large they are."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from isotherm.core.model.jobs import CompactionJob
from isotherm.iceberg.compaction.source import BATCH_BYTES, BATCH_ROWS, Source
from support.one_partition import NAME


def test_rows_that_a_dictionary_makes_small_are_read_a_few_at_a_time(
    catalog: Any, job: CompactionJob, tmp_path: Path
) -> None:
    """Two documents that are shared by all rows: half a megabyte on disk, gigabytes when it is read at once."""
    documents = pa.array([letter * 20_000 for letter in "ab"])
    # The first rows are small, so what is learnt of them is wrong.
    places = pa.array([None] * 5_000 + [one % 2 for one in range(60_000)], pa.int32())
    field = pa.field("part", pa.string(), metadata={"PARQUET:field_id": "2"})
    path = tmp_path / "small.parquet"
    table = pa.Table.from_arrays([pa.DictionaryArray.from_arrays(places, documents)], names=["part"])
    pq.write_table(table.cast(pa.schema([field.with_type(pa.dictionary(pa.int32(), pa.string()))])), path)
    assert path.stat().st_size < 1024 * 1024
    columns = catalog.load_table(NAME).schema().field_ids

    sizes = [
        (batch.num_rows, batch.nbytes)
        for batch in Source(
            str(path), replace(job.data_files[0], path=str(path), rows=65_000), columns, None
        ).batches()
    ]

    assert sum(rows for rows, _ in sizes) == 65_000
    # Once, where the rows become large, a batch is of as many as there were before.
    large = sorted(size for _, size in sizes if size > 2 * BATCH_BYTES)
    assert len(large) <= 1
    assert max(large, default=0) <= BATCH_ROWS * 20_100


def large_source(
    catalog: Any, job: CompactionJob, path: Path, column: pa.Array, store_schema: bool
) -> Source:
    """A file of one row group whose column `part` is this."""
    field = pa.field("part", column.type, metadata={"PARQUET:field_id": "2"})
    table = pa.Table.from_arrays([column], schema=pa.schema([field]))
    is_dictionary = pa.types.is_dictionary(column.type)
    pq.write_table(table, path, compression="none", use_dictionary=is_dictionary, store_schema=store_schema)
    file = replace(job.data_files[0], path=str(path), rows=len(column))
    return Source(str(path), file, catalog.load_table(NAME).schema().field_ids, None)


@pytest.mark.parametrize("store_schema", [False, True])
def test_rows_that_are_large_from_the_first_on_never_take_much(
    catalog: Any, job: CompactionJob, tmp_path: Path, store_schema: bool
) -> None:
    """With Arrow's schema too, which says that these are a dictionary: they are texts when they are written."""
    values = pa.DictionaryArray.from_arrays(pa.array([0] * BATCH_ROWS, pa.int32()), pa.array(["x" * 20_000]))
    source = large_source(catalog, job, tmp_path / "large.parquet", values, store_schema)

    sizes = [(batch.num_rows, batch.column(0).cast(pa.string()).nbytes) for batch in source.batches()]

    assert sum(rows for rows, _ in sizes) == BATCH_ROWS
    assert max(size for _, size in sizes) <= 2 * BATCH_BYTES


def test_rows_that_become_large_are_not_read_twice(catalog: Any, job: CompactionJob, tmp_path: Path) -> None:
    path = tmp_path / "later.parquet"
    small = [str(one) for one in range(33_000)]
    large = [str(one) * 2_500 for one in range(10_000, 13_000)]
    source = large_source(catalog, job, path, pa.array(small + large + small[:10_000]), True)
    before = bytes_read()

    rows = [batch.num_rows for batch in source.batches()]

    assert (sum(rows), max(rows)) == (46_000, BATCH_ROWS)
    assert bytes_read() - before < 1.3 * path.stat().st_size


def bytes_read() -> int:
    """What this process has read so far, as the kernel counts it."""
    return int(Path("/proc/self/io").read_text().split("rchar: ")[1].split()[0])
