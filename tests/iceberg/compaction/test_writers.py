"""The two worst mistakes: our commit while a writer's own is open must cost the writer nothing."""

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from isotherm.contract.identity import PartitionKey
from isotherm.core.model.jobs import OutcomeKind, Take
from support.gate import PATIENCE_S, Gate
from support.rewriting import bound, cleaned, commit, compacted, fresh, rewritten, rows

pytestmark = pytest.mark.spark

COLD, HOT = PartitionKey('{"1000":1}'), PartitionKey('{"1000":2}')
MERGE = """
    MERGE INTO lake.{name} t USING (SELECT hold(id) AS id, part, text FROM source) s ON t.id = s.id
    WHEN MATCHED AND s.text = 'gone' THEN DELETE WHEN MATCHED THEN UPDATE SET text = s.text
    WHEN NOT MATCHED THEN INSERT *
"""


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Gate]:
    gate = Gate(tmp_path)
    yield gate
    gate.open()
    gate.close()


@pytest.fixture
def table(spark: Any) -> Iterator[str]:
    """A cold and a hot partition, with small files and position deletes in both."""
    with fresh(spark, "db.writers", "id BIGINT, part INT, text STRING", "PARTITIONED BY (part)") as name:
        for start in (0, 100, 200):
            spark.sql(
                f"INSERT INTO lake.{name} SELECT id, CAST(1 + id % 2 AS INT), concat('v', id) "
                f"FROM range({start}, {start + 100}, 1, 1) ORDER BY id % 2"
            )
        spark.sql(f"DELETE FROM lake.{name} WHERE id IN (4, 5, 104, 105)")
        yield name


@pytest.fixture
def source(spark: Any, gate: Gate) -> None:
    """Changes to the hot partition (odd ids): an update, a delete, an insert."""
    from pyspark.sql.types import LongType

    # Whatever python3 may be on the path: the function must meet the Python that made it.
    spark.sparkContext.pythonExec = sys.executable
    spark.udf.register("hold", gate.function(), LongType())
    changes = [(7, 2, "updated"), (9, 2, "gone"), (1001, 2, "new")]
    spark.createDataFrame(changes, "id BIGINT, part INT, text STRING").coalesce(1).createOrReplaceTempView(
        "source"
    )


def expected_rows() -> list[str]:
    kept = {
        one: {"id": one, "part": 1 + one % 2, "text": f"v{one}"}
        for one in range(300)
        if one not in {4, 5, 104, 105, 9}
    }
    kept[7]["text"] = "updated"
    kept[1001] = {"id": 1001, "part": 2, "text": "new"}
    return sorted(map(str, kept.values()))


def test_a_merge_that_is_open_on_another_partition_goes_through(
    spark: Any, lake: Any, gate: Gate, table: str, source: None
) -> None:
    before = lake.load_table(table)
    job = bound(before, COLD)
    rewrite = rewritten(before, job)
    with ThreadPoolExecutor(1) as pool:
        merge = pool.submit(lambda: spark.sql(MERGE.format(name=table)).collect())
        gate.wait(merge)
        ours = commit(lake, job, rewrite)
        assert not merge.done()
        gate.open()
        merge.result(timeout=PATIENCE_S)

    assert OutcomeKind.DONE is ours.kind
    assert expected_rows() == rows(spark, table)
    history = [one.snapshot_id for one in lake.load_table(table).metadata.snapshots]
    head = lake.load_table(table).metadata.current_snapshot()
    assert [job.base_snapshot_id, ours.snapshot_id, head.snapshot_id] == history[-3:]
    assert ours.snapshot_id == head.parent_snapshot_id


@pytest.mark.parametrize("granularity", ["file", "partition"])
def test_a_merge_that_has_planned_on_a_partition_whose_deletes_are_merged(
    spark: Any, lake: Any, gate: Gate, table: str, source: None, granularity: str
) -> None:
    """Data files that it names are still there. But with deletes by file it puts new ones in the place of old ones, and
    says so: where these are gone it fails, as it does where data files are, and has to be computed again.
    """
    spark.sql(f"ALTER TABLE lake.{table} SET TBLPROPERTIES ('write.delete.granularity' = '{granularity}')")
    before = lake.load_table(table)
    job = bound(before, HOT, take=Take(merges_deletes=True))
    rewrite = rewritten(before, job)
    with ThreadPoolExecutor(1) as pool:
        merge = pool.submit(lambda: spark.sql(MERGE.format(name=table)).collect())
        gate.wait(merge)
        ours = commit(lake, job, rewrite)
        assert not merge.done()
        gate.open()
        if granularity == "file":
            with pytest.raises(Exception, match="Missing required files to delete"):
                merge.result(timeout=PATIENCE_S)
            spark.sql(MERGE.format(name=table))
        merge.exception(timeout=PATIENCE_S)

    assert (ours.kind, len(job.delete_files)) == (OutcomeKind.DONE, 2)
    assert expected_rows() == rows(spark, table)
    head = lake.load_table(table).metadata.current_snapshot()
    assert ours.snapshot_id == head.parent_snapshot_id


def test_that_gate_would_show_a_conflict(spark: Any, lake: Any, gate: Gate, table: str, source: None) -> None:
    """The control of the test above: what we must not be is refused by the very same open MERGE."""
    with ThreadPoolExecutor(1) as pool:
        merge = pool.submit(lambda: spark.sql(MERGE.format(name=table)).collect())
        gate.wait(merge)
        spark.sql(f"INSERT INTO lake.{table} VALUES (7, 1, 'foreign')")
        gate.open()

        with pytest.raises(Exception, match="Found conflicting files"):
            merge.result(timeout=PATIENCE_S)


def test_a_fenced_append_that_is_open_goes_through(
    spark: Any, lake: Any, gate: Gate, table: str, source: None
) -> None:
    before = lake.load_table(table)
    job = bound(before, HOT)
    rewrite = rewritten(before, job)
    fence = before.metadata.current_snapshot_id
    with ThreadPoolExecutor(1) as pool:
        append = pool.submit(fenced_append, spark, table, fence)
        gate.wait(append)
        ours = commit(lake, job, rewrite)
        assert not append.done()
        gate.open()
        append.result(timeout=PATIENCE_S)

    assert OutcomeKind.DONE is ours.kind
    head = lake.load_table(table).metadata.current_snapshot()
    assert ("append", ours.snapshot_id) == (head.summary.operation.value, head.parent_snapshot_id)
    assert len(rows(spark, table)) == 300 - 4 + 3


def test_that_fence_would_show_a_foreign_append(
    spark: Any, lake: Any, gate: Gate, table: str, source: None
) -> None:
    fence = lake.load_table(table).metadata.current_snapshot_id
    with ThreadPoolExecutor(1) as pool:
        append = pool.submit(fenced_append, spark, table, fence)
        gate.wait(append)
        spark.sql(f"INSERT INTO lake.{table} VALUES (7, 1, 'foreign')")
        gate.open()

        with pytest.raises(Exception, match="Found conflicting files"):
            append.result(timeout=PATIENCE_S)


def fenced_append(spark: Any, name: str, fence: int) -> None:
    from pyspark.sql.functions import expr, lit

    frame = spark.table("source").select(expr("hold(id)").alias("id"), "part", "text")
    writer = frame.writeTo(f"lake.{name}").option("validate-from-snapshot-id", str(fence))
    writer.option("isolation-level", "serializable").overwrite(lit(False))


def test_a_merge_that_was_faster_in_our_partition_wins(
    spark: Any, lake: Any, gate: Gate, table: str, source: None
) -> None:
    gate.open()
    before = lake.load_table(table)
    job = bound(before, HOT)
    rewrite = rewritten(before, job)
    spark.sql(MERGE.format(name=table))
    head = lake.load_table(table).metadata.current_snapshot_id

    outcome = commit(lake, job, rewrite)
    removed = cleaned(before, job)

    assert (outcome.kind, outcome.reason) == (OutcomeKind.FAILED, "conflict")
    assert f"was written since snapshot {job.base_snapshot_id}" in outcome.why
    after = lake.load_table(table)
    assert head == after.metadata.current_snapshot_id
    assert [file.path for file in rewrite.files] == list(removed)
    assert ours_on_disk(after, job.job_id) == []
    assert expected_rows() == rows(spark, table)


def test_a_merge_that_names_our_files_later_wins_too(
    spark: Any, lake: Any, gate: Gate, table: str, source: None
) -> None:
    """An open MERGE whose files we replace is the one loss that remains; it must be loud, and the rows right."""
    with ThreadPoolExecutor(1) as pool:
        merge = pool.submit(lambda: spark.sql(MERGE.format(name=table)).collect())
        gate.wait(merge)
        ours = compacted(lake, table, HOT)
        gate.open()

        with pytest.raises(Exception, match="missing data files"):
            merge.result(timeout=PATIENCE_S)

    assert OutcomeKind.DONE is ours.kind
    spark.sql(MERGE.format(name=table))
    assert expected_rows() == rows(spark, table)


def ours_on_disk(table: Any, job_id: str) -> list[str]:
    """Files of a job under the table's location, whatever they are."""
    folder = Path(table.metadata.location.removeprefix("file:").replace("//", "/"))
    return sorted(str(path) for path in folder.rglob(f"*isotherm-{job_id}*") if not path.name.startswith("."))
