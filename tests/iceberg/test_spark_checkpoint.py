"""A checkpoint of Spark says up to where a query has read; Spark wrote it."""

import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO

from isotherm.core.planner.expirable import reader_lags
from isotherm.core.policy.policy import Expire
from isotherm.core.units import DAY_MS
from isotherm.iceberg.catalog import loaded_table
from isotherm.iceberg.read_positions import position_in
from isotherm.iceberg.spark_checkpoint import snapshots_read
from isotherm.runtime.clock import now_ms
from support.builders import view


def checkpoint(folder, *, commits=("0", "1"), offsets=None):
    """One as Spark 4.1 writes it, of a query of two sources."""
    for part in ("commits", "offsets"):
        (folder / part).mkdir()
    for number in commits:
        (folder / "commits" / number).write_text('v1\n{"nextBatchWatermarkMs":0}')
        (folder / "commits" / f".{number}.crc").write_bytes(b"crc")
    for number, line in (offsets or {"1": '{"version":1,"snapshot_id":77,"position":2}'}).items():
        (folder / "offsets" / number).write_text(f'v1\n{{"batchWatermarkMs":0}}\n{{"t":{{"0":5}}}}\n{line}')
    return f"file://{folder}"


def test_the_last_batch_that_is_done_says_it(tmp_path):
    location = checkpoint(
        tmp_path,
        commits=("2", "9", "10"),
        offsets={
            "9": '{"version":1,"snapshot_id":76,"position":2,"scan_all_files":false}',
            "10": '{"version":1,"snapshot_id":77,"position":2,"scan_all_files":false}',
            "11": '{"version":1,"snapshot_id":78,"position":2,"scan_all_files":false}',
        },
    )

    assert snapshots_read(PyArrowFileIO(), location) == {77}


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"commits": ()}, "has no commits"),
        ({"offsets": {"1": '{"t":{"0":5}}'}}, "names no snapshot"),
        ({"offsets": {"1": '{"snapshot_id":-1}'}}, "names no snapshot"),
        ({"offsets": {"1": "[" * 100_000}}, "names no snapshot"),
    ],
)
def test_what_says_nothing_is_refused_in_words(tmp_path, more, why):
    with pytest.raises(ValueError, match=why):
        snapshots_read(PyArrowFileIO(), checkpoint(tmp_path, **more))


@pytest.mark.spark
def test_what_spark_has_read_of_a_table_stays_said_as_it_reads_on(spark, lake, tmp_path):
    spark.sql("CREATE TABLE lake.db.stream (id BIGINT) USING iceberg TBLPROPERTIES ('format-version'='2')")
    read = []
    for number in range(3):
        spark.sql(f"INSERT INTO lake.db.stream VALUES ({number})")
        query = (
            spark.readStream.format("iceberg")
            .load("lake.db.stream")
            .writeStream.option("checkpointLocation", f"{tmp_path}/checkpoint")
            .trigger(availableNow=True)
            .foreachBatch(lambda rows, _: read.extend(row.id for row in rows.collect()))
            .start()
        )
        query.awaitTermination()
        table = lake.load_table("db.stream")

        said = position_in(
            loaded_table(table, "db.stream"), "scoring", 1, None, f"file://{tmp_path}/checkpoint"
        )

        assert said.snapshot_id == table.metadata.current_snapshot_id
        assert sorted(read) == list(range(number + 1))

    spark.sql(
        "CALL lake.system.rewrite_data_files(table => 'db.stream', options => map('rewrite-all', 'true'))"
    )
    loaded = loaded_table(lake.load_table("db.stream"), "db.stream")
    said = position_in(loaded, "scoring", 1, None, f"file://{tmp_path}/checkpoint")

    # Spark stays at the last append, and is not late for it.
    assert said.snapshot_id != loaded.head
    world = view(snapshots=tuple(loaded.snapshots.values()), readers=(said,))
    (lag,) = reader_lags(world, Expire(max_reader_lag="1s"), now_ms() + DAY_MS)
    assert (lag.behind_ms, lag.is_kept) == (0, True)
