"""A mirror's rows are those of a plain dict, whatever changes come, however the table is cut; Spark is the judge."""

from dataclasses import replace
from datetime import UTC, date, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isotherm_ingest.failures import TableRefused
from isotherm_ingest.tables.java_table import COLUMNS
from isotherm_ingest.tables.upsert import LOCATED
from support.examples import examples
from support.upserts import KEPT, Delete, Mirror, Put, hour

pytestmark = pytest.mark.spark

SPECS = ("", "days(at)", "bucket(4, id)", "truncate(1, region)", "region", "region, hours(at)")
"""How tables are cut. Only `bucket` can be told from the key."""

ids = st.integers(1, 12)
rows = st.fixed_dictionaries(
    {
        "name": st.sampled_from(["a", "b", "", None, KEPT]),
        "region": st.sampled_from(["eu", "eu-west", "us", "", None]),
        "at": st.one_of(st.none(), st.integers(-30, 60).map(hour)),
    }
)
unfilled = st.sampled_from([{}, {"name": "", "region": "", "at": hour(-24 * 19_723)}])
"""What a delete says of the row under PostgreSQL's default replica identity: nothing, or 0, '' and 1970."""
changes = st.one_of(st.builds(Put, ids, rows, st.sampled_from("cru")), st.builds(Delete, ids, unfilled))
batches = st.lists(changes, min_size=1, max_size=8)
others = st.sampled_from(["evolve", "compact", "own column"])
"""What others do between two batches."""
histories = st.tuples(batches, others, batches, others, batches).map(list)


@examples(8)
@given(spec=st.sampled_from(SPECS), version=st.sampled_from(["2", "3"]), history=histories)
def test_a_table_holds_what_a_dict_holds(spark, lake_folder, spec, version, history):
    mirror = Mirror(spark, lake_folder, spec, **{"format-version": version})
    for step in history:
        match step:
            case "evolve":
                mirror.evolve()
            case "compact":
                mirror.compact()
            case "own column":
                mirror.fill_own_column()
            case batch:
                told = mirror.apply(*batch)
                assert told == mirror.partitions()
        assert mirror.expected() == mirror.found()


def test_fifty_thousand_changes_are_those_of_a_merge(spark, lake_folder):
    """Keys of two columns, of which one cuts the table; old rows that are replaced, gone, and new."""
    columns = {"id": "BIGINT", "at": "TIMESTAMP", "name": "STRING", "price": "DECIMAL(10,2)"}
    mirror, twin = (Mirror(spark, lake_folder, "days(at)", ("id", "at"), columns) for _ in range(2))
    at = "timestamp_seconds(1704067200 + id * 60)"
    for one in (mirror, twin):
        spark.sql(f"INSERT INTO {one.spark_name} SELECT id, {at}, 'old', 1 FROM range(0, 40000, 2)")
    row = f"named_struct('id', id, 'at', {at}, 'name', concat('new', n), 'price', CAST(id AS DECIMAL(10,2)))"
    change = (
        "named_struct('op', IF(id % 5 = 0, 'd', 'u'), 'partition', 0, 'offset', n, "
        "'kept', CAST(array() AS ARRAY<STRING>), 'problem', CAST(NULL AS STRING))"
    )
    # Each key comes twice, with another value.
    source = (
        f"SELECT {row} AS row, {change} AS change FROM (SELECT id AS n, id % 25000 AS id FROM range(50000))"
    )
    spark.sql(source).createOrReplaceTempView("fifty_thousand")
    mirror.write_view("fifty_thousand")
    spark.sql(
        f"""MERGE INTO {twin.spark_name} t USING (SELECT * FROM ({source}) WHERE change.offset >= 25000) s
        ON t.id = s.row.id AND t.at = s.row.at
        WHEN MATCHED AND s.change.op = 'd' THEN DELETE
        WHEN MATCHED THEN UPDATE SET name = s.row.name, price = s.row.price
        WHEN NOT MATCHED AND s.change.op <> 'd' THEN INSERT (id, at, name, price)
            VALUES (s.row.id, s.row.at, s.row.name, s.row.price)"""
    )

    assert mirror.rows_that_differ_from(twin) == 0
    assert spark.table(mirror.spark_name).count() > 20_000


def test_a_key_of_every_type_that_can_be_told_finds_its_rows(spark, lake_folder):
    columns = {
        "id": "BIGINT",
        "text": "STRING",
        "day": "DATE",
        "at": "TIMESTAMP_NTZ",
        "price": "DECIMAL(10,2)",
    }
    mirror = Mirror(spark, lake_folder, "day", tuple(columns), columns)
    values = (
        "struct({} AS id, concat('it\\'s \\\\ ', id % 3) AS text, date_add(DATE'0001-01-01', CAST(id % 5 AS INT)) AS day, "
        "TIMESTAMP_NTZ'9999-12-31 23:59:59.999999' AS at, CAST(id % 7 AS DECIMAL(10,2)) AS price)"
    )
    change = "struct('{}' AS op, 0 AS partition, id AS offset, CAST(array() AS ARRAY<STRING>) AS kept, CAST(NULL AS STRING) AS problem)"
    for op, number, count in (("c", "id", 300), ("u", "id", 100), ("d", "id", 250)):
        row = f"SELECT {values.format(number)} AS row, {change.format(op)} AS change FROM range({count})"
        spark.sql(row).createOrReplaceTempView("typed")
        mirror.write_view("typed")

    assert [row[0] for row in mirror.found()] == sorted(range(250, 300), key=str)


@pytest.mark.parametrize("granularity", ["file", "partition"])
def test_rows_of_a_partition_whose_name_is_longer_than_a_folders_are_changed_like_others(
    spark, lake_folder, granularity
):
    mirror = Mirror(spark, lake_folder, "region", **{"write.delete.granularity": granularity})
    mirror.apply(*(Put(number, {"region": "中" * 28 * number, "name": "a"}) for number in (1, 2, 3)))

    told = mirror.apply(Put(1, {"region": "中" * 28, "name": "b"}), Delete(2), Put(3, {"region": "eu"}))

    assert told == mirror.partitions()
    assert mirror.expected() == mirror.found()


def test_a_partition_may_be_no_number_or_without_end(spark, lake_folder):
    """And 0.1, which is another number in four bytes than in eight: its intent names the one in the manifests."""
    columns = {"id": "BIGINT", "real": "DOUBLE", "short": "FLOAT"}
    mirror = Mirror(spark, lake_folder, "real, short", columns=columns)
    values = (float("nan"), float("inf"), float("-inf"), 0.1)
    rows = [{"real": one, "short": one} for one in values]
    rows[3]["real"] = 1.5  # PyIceberg, by which the mirror judges, takes a double for a float
    told = mirror.apply(*(Put(number, row) for number, row in enumerate(rows)))

    assert told == mirror.partitions()
    assert mirror.found(f"SELECT id, string(real), string(short) FROM {mirror.spark_name}") == [
        (0, "NaN", "NaN"), (1, "Infinity", "Infinity"), (2, "-Infinity", "-Infinity"), (3, "1.5", "0.1"),
    ]  # fmt: skip
    assert mirror.found(f"SELECT id FROM {mirror.spark_name} WHERE short = float('-inf')") == [(2,)]


def test_a_value_of_somebody_elses_column_stays_until_the_row_is_deleted(spark, lake_folder):
    mirror = Mirror(spark, lake_folder)
    mirror.apply(*(Put(number, {"name": "a"}) for number in (1, 2, 3)))
    mirror.fill_own_column()
    mirror.apply(Put(1, {"name": "b"}), Delete(2), Put(2, {"name": "b"}), Put(4))

    assert [(1, "mine 1"), (2, None), (3, "mine 3"), (4, None)] == mirror.found(
        f"SELECT id, mine FROM {mirror.spark_name}"
    )


def test_a_value_that_is_not_told_is_the_newest_one_that_was(spark, lake_folder):
    mirror = Mirror(spark, lake_folder, "region")
    mirror.apply(
        Put(1, {"name": "large", "region": "eu"}), Put(2, {"name": "large"}), Put(3, {"name": "large"})
    )
    mirror.apply(
        Put(1, {"name": KEPT, "region": "us"}),
        Put(2, {"name": None}),
        Put(2, {"name": KEPT}),
        Delete(3),
        Put(3, {"name": KEPT}),
        Put(4, {"name": KEPT}),
    )

    assert [(1, "large"), (2, None), (3, None), (4, None)] == mirror.found(
        f"SELECT id, name FROM {mirror.spark_name}"
    )


def test_a_column_of_the_key_that_was_renamed_still_finds_the_rows(spark, lake_folder):
    mirror = Mirror(spark, lake_folder, "bucket(4, id)", columns={"id": "INT", "name": "STRING"})
    mirror.apply(Put(1, {"name": "a"}), Put(2, {"name": "a"}))
    spark.sql(f"ALTER TABLE {mirror.spark_name} RENAME COLUMN id TO number")
    spark.sql(f"ALTER TABLE {mirror.spark_name} ALTER COLUMN number TYPE BIGINT")
    mirror.key, mirror.columns = ("number",), {"number": "BIGINT", "name": "STRING"}
    mirror.write_rows([(("u", (), (1, "b")))])

    assert [(1, "b"), (2, "a")] == mirror.found()


# Files


def test_a_data_file_has_one_delete_file_at_most_where_the_table_says_so(spark, lake_folder):
    by_file = Mirror(spark, lake_folder, "region")
    by_partition = Mirror(spark, lake_folder, "region", **{"write.delete.granularity": "partition"})
    for mirror in (by_file, by_partition):
        mirror.apply(*(Put(number, {"region": "eu"}) for number in range(10)))
        mirror.apply(*(Put(number, {"region": "eu"}) for number in range(10, 20)))
        for number in (1, 2, 11):
            mirror.apply(Delete(number))

        assert mirror.expected() == mirror.found()
    assert [(2,)] == by_file.found(f"SELECT count(*) FROM {by_file.spark_name}.delete_files")
    assert [(3,)] == by_partition.found(f"SELECT count(*) FROM {by_partition.spark_name}.delete_files")


@pytest.mark.parametrize("kind", ["DATE", "TIMESTAMP"])
def test_a_partition_that_the_julian_calendar_does_not_know_can_be_read(spark, lake_folder, kind):
    value = date(1582, 10, 10) if kind == "DATE" else datetime(1582, 10, 10, tzinfo=UTC)
    mirror = Mirror(spark, lake_folder, "day", columns={"id": "BIGINT", "day": kind})
    mirror.apply(Put(1, {"day": value}), Put(2, {"day": value}))
    mirror.apply(Delete(1))

    assert mirror.found(f"SELECT id FROM {mirror.spark_name}") == [(2,)]


def test_a_row_keeps_its_id_in_format_3(spark, lake_folder):
    mirror = Mirror(spark, lake_folder, **{"format-version": "3"})
    mirror.apply(Put(1), Put(2), Put(3))
    ids = f"SELECT id, _row_id FROM {mirror.spark_name}"
    before = dict(mirror.found(ids))
    mirror.apply(Put(2, {"name": "b"}), Put(4))
    after = dict(mirror.found(ids))

    assert before == {number: after[number] for number in before}
    assert after[4] not in before.values()
    stamps = dict(mirror.found(f"SELECT id, _last_updated_sequence_number FROM {mirror.spark_name}"))
    assert stamps == {1: 1, 2: 2, 3: 1, 4: 2}


def test_rows_of_one_partition_are_one_file_and_those_of_a_key_lie_together(spark, lake_folder):
    mirror = Mirror(spark, lake_folder, "region")
    mirror.apply(*(Put(number, {"region": "eu" if number % 2 else "us"}) for number in (5, 2, 1, 4, 3)))

    placed = "array_sort(collect_list(struct(_pos, id))).id"
    assert [("eu", [1, 3, 5]), ("us", [2, 4])] == mirror.found(
        f"SELECT region, {placed} FROM (SELECT *, _file, _pos FROM {mirror.spark_name}) GROUP BY region, _file"
    )


def test_what_an_attempt_wrote_for_a_commit_that_was_never_asked_for_is_deleted(spark, lake_folder):
    mirror = Mirror(spark, lake_folder, "region")
    mirror.apply(*(Put(number, {"region": "eu", "name": "large"}) for number in range(5)))
    before = mirror.files()
    # A row that waits for a value of the table is written by the attempt.
    attempt = mirror.upsert([Put(1, {"region": "us", "name": KEPT}), Delete(2)])

    def no_answer(_):
        assert len(mirror.files()) == len(before) + 2  # rows, and deletes
        raise TimeoutError("the broker does not answer")

    with pytest.raises(TimeoutError):
        attempt.write(attempt.locate(), mirror.summary(), no_answer)
    attempt.close()

    assert before == mirror.files()
    assert mirror.expected() == mirror.found()


def test_rows_that_wait_and_can_only_be_written_in_part_leave_no_file(spark, lake_folder):
    mirror = Mirror(spark, lake_folder, "region")
    mirror.apply(*(Put(number, {"region": "eu", "name": "large"}) for number in range(5)))
    before = mirror.files()
    look, done = mirror.prepared([Put(1, {"region": "us", "name": KEPT})])

    def broken(old, kept):
        whole = done.fill(old, kept)
        assert len(mirror.files()) == len(before) + 1
        return replace(whole, error="OSError: no space left")

    attempt = mirror.attempt(look, replace(done, fill=broken))
    with pytest.raises(RuntimeError, match="no space left"):
        attempt.write(attempt.locate(), mirror.summary(), set().update)
    attempt.close()

    assert before == mirror.files()


@pytest.mark.parametrize("version", [2, 3])
def test_a_commit_tells_how_it_left_the_table_unless_somebody_else_was_there(spark, lake_folder, version):
    mirror = Mirror(spark, lake_folder, "region", **{"format-version": version})
    mirror.apply(*(Put(number, {"region": "eu"}) for number in range(5)))

    def committed(meanwhile):
        attempt = mirror.upsert([Put(1, {"region": "us"})])
        try:
            return attempt.write(attempt.locate(), mirror.summary(), meanwhile)
        finally:
            attempt.close()

    alone = committed(lambda _: None)
    loaded = mirror.lake.load(mirror.name)
    assert alone.now.table.metadata_location == loaded.table.metadata_location
    assert (alone.snapshot_id, alone.now.head) == (loaded.head, loaded.head)
    assert alone.now.links() == loaded.links()
    assert alone.now.snapshots[loaded.head] == loaded.snapshots[loaded.head]

    comment = f"ALTER TABLE {mirror.spark_name} SET TBLPROPERTIES ('comment' = 'changed meanwhile')"
    assert committed(lambda _: spark.sql(comment)).now is None


@pytest.mark.parametrize("version", [2, 3])
def test_rows_whose_partition_nobody_can_tell_are_refused_and_the_table_stays_readable(
    spark, lake_folder, version
):
    """Iceberg lets a column go once no spec divides by it any more; the files of before are divided by it still."""
    columns = {"id": "BIGINT", "name": "STRING", "region": "STRING"}
    mirror = Mirror(spark, lake_folder, "region", columns=columns, **{"format-version": str(version)})
    mirror.apply(*(Put(number, {"name": "a", "region": "eu"}) for number in range(1, 5)))
    spark.sql(f"ALTER TABLE {mirror.spark_name} DROP PARTITION FIELD region")
    spark.sql(f"ALTER TABLE {mirror.spark_name} DROP COLUMN region")
    mirror.columns = {"id": "BIGINT", "name": "STRING"}

    with pytest.raises(TableRefused, match="divided by region, whose column was dropped"):
        mirror.apply(Put(2, {"name": "b"}))

    assert spark.sql(f"SELECT id, name FROM {mirror.spark_name}").count() == 4


def test_a_partition_field_that_format_1_keeps_as_void_stands_in_no_upserts_way(spark, lake_folder):
    columns = {"id": "BIGINT", "name": "STRING", "region": "STRING"}
    mirror = Mirror(spark, lake_folder, "region", columns=columns, **{"format-version": "1"})
    spark.sql(f"ALTER TABLE {mirror.spark_name} DROP PARTITION FIELD region")
    spark.sql(f"ALTER TABLE {mirror.spark_name} SET TBLPROPERTIES ('format-version'='2')")
    spark.sql(f"ALTER TABLE {mirror.spark_name} DROP COLUMN region")
    mirror.columns = {"id": "BIGINT", "name": "STRING"}
    mirror.apply(*(Put(number, {"name": "a"}) for number in range(1, 5)))

    mirror.apply(Put(2, {"name": "b"}))

    assert spark.sql(f"SELECT name FROM {mirror.spark_name} ORDER BY id").collect() == [
        ("a",),
        ("b",),
        ("a",),
        ("a",),
    ]


def test_a_commit_leaves_no_table_in_the_session(spark, lake_folder):
    """Its views would keep all snapshots of each table that was ever written to."""
    mirror = Mirror(spark, lake_folder)
    for name in ("a", "b"):
        mirror.apply(*(Put(number, {"name": name}) for number in range(300)))

    assert not any(spark.catalog.tableExists(view) for view in (COLUMNS, LOCATED))


def test_rows_by_ints_that_are_truncated_to_more_than_a_quarter_of_all_are_found(spark, lake_folder):
    """Iceberg's Java truncates them in 32 bits, and would pass over the file of the old row."""
    mirror = Mirror(spark, lake_folder, "truncate(1500000000, id)", ("id",), {"id": "INT", "name": "STRING"})
    for name in ("before", "after"):
        mirror.write_rows([("u", [], (860_744_820, name))])

    assert mirror.found() == [(860_744_820, "after")]
