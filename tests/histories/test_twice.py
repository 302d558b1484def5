"""A file that manifests name twice, as Spark rewrites it: our state stays equal to a count, and there is no alarm."""

import pytest

from isotherm.core import observations as seen
from support.lab import Lab, believed, counted, event_of, of, settle, started, uuid_of

pytestmark = pytest.mark.spark

NAME = "twice.orders"
POLICY = """
tables: "twice.*"
compact: {enabled: false}
expire: {enabled: false}
"""


@pytest.fixture
def lab(tmp_path, lake_folder):
    made = Lab(tmp_path, policy=POLICY, properties=lake_folder.pyiceberg_properties)
    yield made
    made.executor.stop()


@pytest.mark.parametrize("manifests", ["one", "two"])
def test_an_append_that_was_cherry_picked_twice_and_rewritten_is_no_drift(spark, lab, manifests):
    def run(text):
        spark.sql(text)
        return lab.catalog.load_table(NAME).current_snapshot().snapshot_id

    def insert(first):
        return run(f"INSERT INTO lake.{NAME} SELECT id, 'x' FROM range({first}, {first + 3}, 1, 1)")

    def call(procedure, snapshot_id):
        return run(f"CALL lake.system.{procedure}('{NAME}', {snapshot_id})")

    spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.twice")
    spark.sql(f"CREATE TABLE lake.{NAME} (id BIGINT, what STRING) USING iceberg")
    begin = insert(0)
    append = insert(10)
    call("rollback_to_snapshot", begin)
    fork = insert(20)
    picked = call("cherrypick_snapshot", append)
    call("rollback_to_snapshot", fork)
    insert(30)
    picked_elsewhere = call("cherrypick_snapshot", append)
    call("set_current_snapshot", picked)
    service = started(lab)
    settle(service)
    # Spark notices that it took this snapshot already, but not that it took the same files.
    call("cherrypick_snapshot", picked_elsewhere)
    table = lab.catalog.load_table(NAME)
    lab.announce(event_of(table))
    if manifests == "one":
        spark.sql(f"CALL lake.system.rewrite_manifests('{NAME}', false)")
        lab.announce(event_of(table.refresh()))
    settle(service)
    before = service.fold.table(uuid_of(table)).state
    rows = spark.table(f"lake.{NAME}").count()

    # (`rewrite_data_files` is refused: to Iceberg it adds more rows than it replaces.)
    spark.sql(f"UPDATE lake.{NAME} SET what = 'y'")
    head = table.refresh().current_snapshot()
    lab.announce(event_of(table))
    settle(service)

    assert rows == 12
    assert before.summary_gap["total-data-files"] == 0
    # In one manifest both entries leave, and Java takes the file away from its totals once. Of two it leaves one alone.
    assert head.summary["deleted-duplicate-files"] == ("1" if manifests == "one" else None)
    assert int(head.summary["total-data-files"]) == int(head.summary["added-data-files"]) + 1
    after = service.fold.table(uuid_of(table)).state
    assert after.summary_gap["total-data-files"] == (1 if manifests == "one" else 0)
    assert of(lab, seen.StateDrifted) == []
    assert len(of(lab, seen.TableScanned)) == 1
    assert believed(service, uuid_of(table)) == counted(lab.scan(NAME))
    insert(40)
    lab.announce(event_of(table.refresh()))
    settle(service)
    assert of(lab, seen.StateDrifted) == []
    assert believed(service, uuid_of(table)) == counted(lab.scan(NAME))
    service.stop()
    spark.sql(f"DROP TABLE lake.{NAME}")
