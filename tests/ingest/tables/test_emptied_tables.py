"""All rows of a table are replaced in one commit: what would be lost by that is refused, and nothing else is."""

import pytest
from py4j.protocol import Py4JJavaError

from isotherm_ingest.failures import Verdict, verdict
from isotherm_ingest.tables.java_table import JavaTable
from support.upserts import Delete, Mirror, Put

pytestmark = pytest.mark.spark


@pytest.fixture(params=["2", "3"])
def mirror(request, spark, lake_folder):
    mirror = Mirror(spark, lake_folder, "bucket(4, id)", **{"format-version": request.param})
    mirror.apply(*(Put(number, {"name": "old"}) for number in range(1, 9)))
    mirror.apply(Delete(1), Put(2, {"name": "newer"}))
    return mirror


def emptied(mirror, meanwhile=None):
    """Look at the table; then something happens; then it is emptied."""
    now = mirror.lake.load(mirror.name)
    table = JavaTable(mirror.spark, mirror.lake.spark_name(mirror.name), now)
    if meanwhile:
        meanwhile()
    return table.replace_all([], mirror.summary())


def totals(mirror):
    summary = mirror.lake.load(mirror.name).table.metadata.current_snapshot().summary
    return {name: summary[f"total-{name}"] for name in ("records", "data-files", "delete-files")}


def test_rows_and_deletes_go_whatever_spec_they_are_of(mirror):
    mirror.spark.sql(f"ALTER TABLE {mirror.spark_name} ADD PARTITION FIELD hours(at)")
    mirror.apply(Put(77, {"name": "of the newer spec"}), Delete(3))
    committed = emptied(mirror)

    assert mirror.found() == []
    assert committed.snapshot_id == mirror.lake.load(mirror.name).head
    assert committed.now is not None
    assert totals(mirror) == {"records": "0", "data-files": "0", "delete-files": "0"}


def test_what_is_compacted_or_deleted_meanwhile_goes_with_the_rest(mirror):
    emptied(mirror, mirror.compact)
    assert mirror.found() == []

    mirror.rows.clear()
    mirror.apply(Put(1), Put(2))
    emptied(mirror, lambda: mirror.spark.sql(f"DELETE FROM {mirror.spark_name} WHERE id = 2"))
    assert mirror.found() == []


@pytest.mark.parametrize("who", ["somebody else", "another driver"])
def test_rows_that_come_meanwhile_are_not_taken_unseen(mirror, who):
    theirs = f"INSERT INTO {mirror.spark_name} VALUES (77, 'theirs', NULL, NULL)"
    comes = {
        "somebody else": lambda: mirror.spark.sql(theirs),
        "another driver": lambda: mirror.apply(Delete(99)),
    }
    with pytest.raises(Py4JJavaError) as caught:
        emptied(mirror, comes[who])

    assert verdict(caught.value) is Verdict.CONFLICT
    assert len(mirror.found()) == 7 + (who == "somebody else")


def test_a_table_that_was_rolled_back_meanwhile_is_looked_at_again(mirror):
    (first,) = mirror.found(f"SELECT min_by(snapshot_id, committed_at) FROM {mirror.spark_name}.snapshots")
    back = f"CALL lake.system.rollback_to_snapshot('{mirror.name}', {first[0]})"
    with pytest.raises(Py4JJavaError) as caught:
        emptied(mirror, lambda: mirror.spark.sql(back))

    assert verdict(caught.value) is Verdict.CONFLICT
    assert len(mirror.found()) == 8


def test_an_empty_table_can_be_emptied(spark, lake_folder):
    mirror = Mirror(spark, lake_folder)
    emptied(mirror)

    assert mirror.found() == []
    assert mirror.lake.load(mirror.name).head is not None
