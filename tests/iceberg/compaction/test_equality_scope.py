"""Which equality deletes a job may take out, and which readers do not agree about: judged by Spark."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import FixedType, NestedField, UUIDType

from isotherm.contract.identity import PartitionKey
from isotherm.core.model.jobs import OutcomeKind, Take
from isotherm.core.model.refusals import Reason, Refusal
from isotherm.iceberg.compaction.rewrite import attempt
from isotherm.parquet.table_description import described
from support.equality import delete_by, keys
from support.rewriting import bound, compacted, fresh, rows, try_to_bind

pytestmark = pytest.mark.spark

ONE, WHOLE = PartitionKey('{"1000":1}'), PartitionKey("{}")
APPLIED = Take(with_deletes=True)
CONVERTED = Take(merges_deletes=True, converts_equality=True)
ID = ("id", pa.int64(), 1)


def deletes(spark: Any, name: str) -> list[tuple[int, int]]:
    """Content and spec of the live delete files."""
    found = spark.sql(f"SELECT content, spec_id FROM lake.{name}.files WHERE content > 0").collect()
    return sorted(tuple(row) for row in found)


@pytest.mark.parametrize("take", [APPLIED, CONVERTED], ids=["applied", "converted"])
def test_deletes_of_the_whole_table_are_not_the_business_of_a_partition(
    spark: Any, lake: Any, tmp_path: Path, take: Take
) -> None:
    """A table was upserted before it was partitioned: its first deletes apply to data that no partition shows."""
    with fresh(spark, "db.everywhere", "id BIGINT, part INT") as name:
        spark.sql(f"INSERT INTO lake.{name} SELECT id, 1 FROM range(0, 10, 1, 1)")
        for number in range(3):
            delete_by(spark, name, tmp_path, keys(ID, rows=[(number,)]), [1])
        spark.sql(f"ALTER TABLE lake.{name} ADD PARTITION FIELD part")
        spark.sql(f"INSERT INTO lake.{name} SELECT id, 1 FROM range(20, 30, 1, 1)")
        delete_by(spark, name, tmp_path, keys(ID, rows=[(21,)]), [1], "part=1")
        before = rows(spark, name)
        assert len(before) == 10 - 3 + 10 - 1

        assert compacted(lake, name, ONE, take=take).kind is OutcomeKind.DONE

        assert rows(spark, name) == before
        assert deletes(spark, name) == [*([(1, 1)] if take is CONVERTED else []), (2, 0), (2, 0), (2, 0)]
        # Not even where somebody names their spec.
        refused = try_to_bind(lake.load_table(name), ONE, take=take, spec_id=0)
        assert isinstance(refused, Refusal), refused
        assert refused.reason is Reason.NOTHING_TO_DO


@pytest.mark.parametrize("take", [APPLIED, CONVERTED], ids=["applied", "converted"])
def test_a_partition_says_the_value_of_a_key_that_its_files_lack_also_once_the_column_is_dropped(
    spark: Any, lake: Any, tmp_path: Path, take: Take
) -> None:
    """Files that came from Hive do not hold the columns of their partition."""
    with fresh(spark, "db.hive", "id BIGINT, part INT", "PARTITIONED BY (part)") as name:
        for part in (1, 2):
            (folder := tmp_path / "hive" / f"part={part}").mkdir(parents=True)
            pq.write_table(pa.table({"id": pa.array(range(5), pa.int64())}), folder / "a.parquet")
        source = f"`parquet`.`{tmp_path / 'hive'}`"
        spark.sql(f"CALL lake.system.add_files(table => '{name}', source_table => '{source}')")
        by = keys(ID, ("part", pa.int32(), 2), rows=[(1, 1), (2, None), (3, 2)])
        delete_by(spark, name, tmp_path, by, [1, 2], "part=1")
        spark.sql(f"ALTER TABLE lake.{name} DROP PARTITION FIELD part")
        spark.sql(f"ALTER TABLE lake.{name} DROP COLUMN part")
        before = rows(spark, name)
        assert len(before) == 10 - 1

        assert compacted(lake, name, ONE, take=take).kind is OutcomeKind.DONE

        assert rows(spark, name) == before


@pytest.mark.parametrize("take", [APPLIED, CONVERTED], ids=["applied", "converted"])
@pytest.mark.parametrize(("held", "named"), [(2, 1), (2, 2), (None, 1), (None, None)])
def test_keys_by_a_column_whose_rows_say_another_value_than_their_partition_are_refused(
    spark: Any, lake: Any, tmp_path: Path, held: int | None, named: int | None, take: Take
) -> None:
    """Iceberg's Java reads the partition's value, whatever the file holds, and compares keys with that."""
    with fresh(spark, "db.says", "id BIGINT, part INT", "PARTITIONED BY (part)") as name:
        for start in (0, 5):
            (folder := tmp_path / str(start) / "part=1").mkdir(parents=True)
            part = pa.array([1, 1, held, 1, 1], pa.int32())
            pq.write_table(
                pa.table({"id": pa.array(range(start, start + 5)), "part": part}), folder / "a.parquet"
            )
            source = f"`parquet`.`{folder.parent}`"
            spark.sql(f"CALL lake.system.add_files(table => '{name}', source_table => '{source}')")
        by = keys(ID, ("part", pa.int32(), 2), rows=[(2, named), (7, named)])
        delete_by(spark, name, tmp_path, by, [1, 2], "part=1")
        before, table = rows(spark, name), lake.load_table(name)
        # Whoever goes by what the file holds has it the other way round.
        assert len(before) == (8 if named == 1 else 10)

        refusal = attempt(bound(table, ONE, take=take), described(table.metadata), lake.properties)

        assert isinstance(refusal, Refusal)
        assert refusal.reason is Reason.EQUALITY_DELETES
        assert "rows whose part is not that of their partition" in refusal.why
        assert rows(spark, name) == before


def test_rows_that_say_another_value_than_their_partition_are_compacted_as_they_are(
    spark: Any, lake: Any, tmp_path: Path
) -> None:
    with fresh(spark, "db.says_too", "id BIGINT, part INT", "PARTITIONED BY (part)") as name:
        for start in (0, 5):
            (folder := tmp_path / str(start) / "part=1").mkdir(parents=True)
            part = pa.array([1, 1, 2, None, 1], pa.int32())
            pq.write_table(
                pa.table({"id": pa.array(range(start, start + 5)), "part": part}), folder / "a.parquet"
            )
            source = f"`parquet`.`{folder.parent}`"
            spark.sql(f"CALL lake.system.add_files(table => '{name}', source_table => '{source}')")
        delete_by(spark, name, tmp_path, keys(ID, rows=[(2,), (6,)]), [1], "part=1")
        before = rows(spark, name)

        assert compacted(lake, name, ONE).kind is OutcomeKind.DONE

        assert rows(spark, name) == before


def test_keys_within_structs_are_refused(spark: Any, lake: Any, tmp_path: Path) -> None:
    """Where a query does not read the struct, Spark takes each row for one of these keys; later queries inherit that."""
    a = pa.field("a", pa.int32(), metadata={"PARQUET:field_id": "3"})
    inner = pa.field("inner", pa.struct([a]), metadata={"PARQUET:field_id": "2"})
    with fresh(spark, "db.within", "id BIGINT, inner STRUCT<a: INT>") as name:
        for _ in range(2):
            spark.sql(
                f"INSERT INTO lake.{name} SELECT id, named_struct('a', CAST(id AS INT)) FROM range(0, 5, 1, 1)"
            )
        delete_by(spark, name, tmp_path, keys(inner, rows=[({"a": 1},), ({"a": 2},)]), [3])
        # Once it is 6, such keys can be applied.
        assert spark.sql(f"SELECT id FROM lake.{name}").collect() == []

        refusal = try_to_bind(lake.load_table(name), WHOLE)

        assert isinstance(refusal, Refusal)
        assert refusal.reason is Reason.EQUALITY_DELETES
        assert "column 3 is no top-level column" in refusal.why


def test_deletes_that_must_stay_do_not_keep_those_of_another_spec(
    spark: Any, lake: Any, tmp_path: Path
) -> None:
    """A writer that still has the spec from before the table was partitioned, and rows without a partition's value."""
    with fresh(spark, "db.both", "id BIGINT, part INT") as name:
        spark.sql(f"INSERT INTO lake.{name} SELECT id, 1 FROM range(0, 10, 1, 1)")
        spark.sql(f"ALTER TABLE lake.{name} ADD PARTITION FIELD part")
        for start, part in ((20, "NULL"), (40, "1")):
            spark.sql(
                f"INSERT INTO lake.{name} SELECT id, CAST({part} AS INT) FROM range({start}, {start + 10}, 1, 1)"
            )
        for number in range(3):
            delete_by(spark, name, tmp_path, keys(ID, rows=[(number,), (41 + number,)]), [1], spec_id=0)
        for number in (20, 21):
            delete_by(
                spark, name, tmp_path, keys(ID, rows=[(number,)]), [1], "part=__HIVE_DEFAULT_PARTITION__"
            )
        before = rows(spark, name)
        assert len(before) == 30 - 6 - 2

        assert compacted(lake, name, WHOLE, take=CONVERTED).kind is OutcomeKind.DONE

        assert rows(spark, name) == before
        assert deletes(spark, name) == [(1, 1), (2, 0), (2, 0), (2, 0)]


def test_deletes_that_apply_to_nothing_leave_where_deletes_are_due(
    spark: Any, lake: Any, tmp_path: Path
) -> None:
    """An upsert deletes keys that nobody had yet; a rewrite by somebody else leaves deletes behind."""
    with fresh(spark, "db.dead", "id BIGINT, part INT") as name:
        for number in range(2):
            delete_by(spark, name, tmp_path, keys(ID, rows=[(number,)]), [1])
        spark.sql(f"INSERT INTO lake.{name} SELECT id, 1 FROM range(0, 10, 1, 1)")
        before, data = rows(spark, name), lake.load_table(name).inspect.data_files()["file_path"].to_pylist()
        # It is not asked of whoever merges small files, of which there is one.
        assert isinstance(try_to_bind(lake.load_table(name), WHOLE, take=Take(10**6)), Refusal)

        assert compacted(lake, name, WHOLE, take=Take(10**6, with_deletes=True)).kind is OutcomeKind.DONE

        assert rows(spark, name) == before
        assert deletes(spark, name) == []
        assert lake.load_table(name).inspect.data_files()["file_path"].to_pylist() == data


def test_deletes_that_name_no_column_are_refused(spark: Any, lake: Any, tmp_path: Path) -> None:
    """Iceberg's Java takes every older row for one that they name."""
    with fresh(spark, "db.none", "id BIGINT, part INT") as name:
        for number in range(2):
            spark.sql(f"INSERT INTO lake.{name} VALUES ({number}, 1)")
        delete_by(spark, name, tmp_path, keys(ID, rows=[(1,)]), [])

        refusal = try_to_bind(lake.load_table(name), WHOLE)

        assert isinstance(refusal, Refusal)
        assert refusal.reason is Reason.EQUALITY_DELETES
        assert "no column" in refusal.why


def test_keys_of_a_fixed_length_are_refused(spark: Any, lake: Any, tmp_path: Path) -> None:
    """Of such a file Spark finds the last key alone, so whoever applies all of them takes rows from it."""
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.db")
    spark.sql("DROP TABLE IF EXISTS lake.db.fixed")
    table = lake.create_table("db.fixed", Schema(NestedField(1, "key", FixedType(2))))
    for _ in range(2):
        table.append(pa.table({"key": pa.array([b"aa", b"bb", b"cc"], pa.binary(2))}))
    delete_by(spark, "db.fixed", tmp_path, keys(("key", pa.binary(2), 1), rows=[(b"aa",), (b"bb",)]), [1])
    # Once it finds both, these keys can be applied.
    assert len(rows(spark, "db.fixed")) == 6 - 2

    refusal = try_to_bind(lake.load_table("db.fixed"), WHOLE)

    assert isinstance(refusal, Refusal)
    assert refusal.reason is Reason.EQUALITY_DELETES
    assert "column key is a fixed[2]" in refusal.why


def test_keys_that_are_uuids_are_refused(spark: Any, lake: Any, tmp_path: Path) -> None:
    """Spark holds the bounds of such deletes against those of the data in another order, and keeps the rows."""
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.db")
    spark.sql("DROP TABLE IF EXISTS lake.db.uuids")
    table = lake.create_table("db.uuids", Schema(NestedField(1, "key", UUIDType())))
    values = [bytes([16 * one]) + bytes(15) for one in range(16)]
    for _ in range(2):
        table.append(pa.table({"key": pa.array(values, pa.uuid())}))
    by = keys(("key", pa.uuid(), 1), rows=[(values[2],), (values[5],)])
    delete_by(spark, "db.uuids", tmp_path, by, [1], with_bounds=True)
    # Once it finds them, these keys can be applied.
    assert len(rows(spark, "db.uuids")) == 32

    refusal = try_to_bind(lake.load_table("db.uuids"), WHOLE)

    assert isinstance(refusal, Refusal)
    assert refusal.reason is Reason.EQUALITY_DELETES
    assert "column key is a uuid" in refusal.why


@pytest.mark.parametrize("names", [False, True])
def test_a_delete_file_without_ids_is_read_by_the_order_of_its_columns_or_not_at_all(
    spark: Any, lake: Any, tmp_path: Path, names: bool
) -> None:
    """Iceberg's Java asks no name mapping for delete files: by names other rows would be deleted."""
    with fresh(spark, "db.order", "id BIGINT, x INT") as name:
        for _ in range(2):
            spark.sql(f"INSERT INTO lake.{name} SELECT id, id + 1 FROM range(0, 5, 1, 1)")
        if names:
            mapping = '[{"field-id": 1, "names": ["id"]}, {"field-id": 2, "names": ["x"]}]'
            spark.sql(
                f"ALTER TABLE lake.{name} SET TBLPROPERTIES ('schema.name-mapping.default'='{mapping}')"
            )
        by = pa.table({"x": pa.array([3], pa.int64()), "id": pa.array([4], pa.int32())})
        delete_by(spark, name, tmp_path, by, [1, 2])
        before, table = rows(spark, name), lake.load_table(name)
        assert len(before) == 10 - 2

        if names:
            refusal = attempt(bound(table, WHOLE), described(table.metadata), lake.properties)
            assert isinstance(refusal, Refusal)
            assert refusal.reason is Reason.EQUALITY_DELETES
        else:
            assert compacted(lake, name, WHOLE).kind is OutcomeKind.DONE

        assert rows(spark, name) == before
