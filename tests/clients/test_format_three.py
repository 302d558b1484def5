"""Metadata of format 3 is written where nothing of it is lost: Spark reads, writes and numbers rows as before."""

import json
from pathlib import Path

import pytest

from isotherm.clients.catalog import open_catalog
from isotherm.clients.format_three import lost
from isotherm.contract.paths import normalised
from isotherm.core.model.jobs import OutcomeKind
from isotherm.iceberg.expiry import expire, read
from isotherm.runtime.clock import now_ms
from support.spark import CATALOG

pytestmark = pytest.mark.spark
ROWS = "SELECT id, name, _row_id, _last_updated_sequence_number FROM lake.{} ORDER BY id"


@pytest.fixture
def catalog(lake_folder):
    return open_catalog(CATALOG, lake_folder.pyiceberg_properties, 60)


@pytest.fixture
def table(spark, request):
    """Format 3, with deletion vectors, a changed schema, a branch, a tag and statistics."""
    name = f"three.{request.node.name.partition('[')[0][-30:]}"
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.three")
    spark.sql(
        f"CREATE TABLE lake.{name} (id BIGINT, name STRING) USING iceberg PARTITIONED BY (bucket(2, id)) TBLPROPERTIES "
        "('format-version'='3', 'write.delete.mode'='merge-on-read', 'write.update.mode'='merge-on-read')"
    )
    for start in (0, 100, 200):
        spark.sql(
            f"INSERT INTO lake.{name} SELECT id, concat('n', id) FROM range({start}, {start + 100}, 1, 1)"
        )
        spark.sql(f"DELETE FROM lake.{name} WHERE id % 7 = 3")
        spark.sql(f"UPDATE lake.{name} SET name = 'changed' WHERE id = {start}")
    spark.sql(f"ALTER TABLE lake.{name} ADD COLUMN more STRING")
    spark.sql(f"ALTER TABLE lake.{name} CREATE BRANCH aside")
    first = spark.sql(f"SELECT snapshot_id FROM lake.{name}.snapshots ORDER BY committed_at").first()[0]
    spark.sql(f"ALTER TABLE lake.{name} CREATE TAG kept AS OF VERSION {first}")
    spark.sql(f"CALL lake.system.compute_table_stats('{name}')")
    return name


def said(table):
    return json.loads(Path(normalised(table.metadata_location)).read_text())


def rows(spark, name):
    return [tuple(row) for row in spark.sql(ROWS.format(name)).collect()]


def expired(catalog, table):
    """All snapshots that may go."""
    parents = [one.snapshot_id for one in table.metadata.snapshots]
    found = read(table, parents, now_ms())
    assert len(found.snapshots) > 4
    name = ".".join(table.name())
    return found, expire(
        catalog, name, str(table.metadata.table_uuid), found, "job", lambda _: None, now_ms()
    )


def test_snapshots_expire_and_readers_and_writers_notice_nothing(spark, catalog, table):
    before, had = said(catalog.load_table(table)), rows(spark, table)
    found, done = expired(catalog, catalog.load_table(table))
    assert done.outcome.kind is OutcomeKind.DONE, done.outcome

    after = said(catalog.load_table(table))
    assert {one["snapshot-id"] for one in before["snapshots"]} - {
        one["snapshot-id"] for one in after["snapshots"]
    } == set(found.snapshots)
    same = before.keys() - {"snapshots", "snapshot-log", "metadata-log", "last-updated-ms", "statistics"}
    assert lost({name: before[name] for name in same}, after) == ""
    kept = {one["snapshot-id"]: one for one in before["snapshots"]}
    assert {lost(kept[one["snapshot-id"]], one) for one in after["snapshots"]} == {""}
    assert rows(spark, table) == had

    # Rows that come get ids that no row has had.
    spark.sql(f"INSERT INTO lake.{table} (id, name) VALUES (1000, 'new')")
    spark.sql(
        f"CALL lake.system.rewrite_data_files(table => '{table}', options => map('rewrite-all', 'true'))"
    )
    assert max(row[2] for row in rows(spark, table) if row[0] == 1000) >= before["next-row-id"]
    assert [row for row in rows(spark, table) if row[0] != 1000] == had


def test_what_nobody_here_can_write_is_named_and_nothing_is_written(spark, catalog, table):
    loaded = catalog.load_table(table)
    path = Path(normalised(loaded.metadata_location))
    path.write_text(json.dumps({**said(loaded), "encryption-keys": [{"key-id": "k"}]}))
    files = set(path.parent.iterdir())

    _, done = expired(catalog, catalog.load_table(table))

    assert done.outcome.kind is OutcomeKind.FAILED
    assert "its metadata says encryption-keys, which would be lost" in done.outcome.why
    assert set(path.parent.iterdir()) == files


@pytest.mark.parametrize(
    ("before", "after", "place"),
    [
        ({"a": 1}, {"a": 1, "b": 2}, ""),
        ({"a": None}, {}, ""),
        ({"a": {"b": [1, {"c": "x"}]}}, {"a": {"b": [1, {"c": "x"}]}}, ""),
        ({"a": {"b": [1, {"c": "x"}]}}, {"a": {"b": [1, {}]}}, "a.b[1].c"),
        ({"a": [1, 2]}, {"a": [1]}, "a"),
        ({"a": True}, {"a": 1}, "a"),
        ({"a": {}}, {}, "a"),
    ],
)
def test_what_is_said_and_not_written_is_found(before, after, place):
    assert lost(before, after) == place


@pytest.mark.parametrize(
    ("kind", "said", "written", "is_same"),
    [
        ("binary", "00FF", "00ff", True),
        ("fixed[2]", "00FF", "00ff", True),
        ("decimal(18, 8)", "0.00000000", "0E-8", True),
        ("timestamp", "2026-02-28T10:00:00.5", "2026-02-28T10:00:00.500000", True),
        ("timestamptz", "2026-02-28T10:00:00.5+00:00", "2026-02-28T10:00:00.500000+00:00", True),
        ("time", "10:00:00.5", "10:00:00.500000", True),
        ("decimal(9, 2)", "1.00", "2.00", False),
        ("timestamp", "2026-02-28T10:00:00.5", "2026-02-28T10:00:00.6", False),
        ("binary", "00FF", "00FE", False),
        ("decimal(9, 2)", "rubbish", "1.00", False),
        ("string", "DE", "de", False),
        ("string", "1.0", "1.00", False),
        ("string", "DE", None, False),
        ("string", "DE", "DE", True),
    ],
)
def test_a_default_is_lost_unless_it_is_the_same_value_of_its_type(kind, said, written, is_same):
    """A text is a value of its own in each spelling."""
    of_said, of_written = (
        {"fields": [{"type": kind, "initial-default": default}]} for default in (said, written)
    )

    assert (lost(of_said, of_written) == "") is is_same
