"""Keys of equality deletes: of every type, of none, and of columns that became something else, judged by Spark."""

from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from isotherm.core.model.jobs import OutcomeKind, Take
from isotherm.core.model.refusals import Reason, Refusal
from support.equality import APPLIED, CONVERTED, ID, WHOLE, delete_by, files, keys
from support.rewriting import bound, compacted, counters, fresh, rows, try_to_bind

pytestmark = pytest.mark.spark


WIDE = (
    "id INT, text STRING, price DECIMAL(9,2), day DATE, at TIMESTAMP, local TIMESTAMP_NTZ, raw BINARY, ok BOOLEAN, "
    "inner STRUCT<a: INT, deep: STRUCT<b: STRING>>, other INT"
)
ROW = (
    "CAST(id AS INT), IF(id % 5 = 0, NULL, concat('t', id % 4)), IF(id % 7 = 0, NULL, CAST(id % 3 AS DECIMAL(9,2)) / 4), "
    "IF(id % 6 = 0, NULL, date_add(DATE '1969-12-30', CAST(id % 4 AS INT))), timestamp_micros(id % 3 - 1), "
    "IF(id % 4 = 0, NULL, TIMESTAMP_NTZ '0001-01-01 00:00:00'), IF(id % 3 = 0, NULL, CAST(concat('b', id % 2) AS BINARY)), "
    "IF(id % 4 = 0, NULL, id % 2 = 0), "
    "IF(id % 5 = 1, NULL, named_struct('a', IF(id % 2 = 0, NULL, CAST(id % 3 AS INT)), 'deep', "
    "IF(id % 7 = 2, NULL, named_struct('b', IF(id % 3 = 0, NULL, 'x'))))), CAST(id % 2 AS INT)"
)


KEYS = {
    "a number": (keys(("id", pa.int32(), 1), rows=[(3,), (11,), (None,)]), [1]),
    "text, and none": (keys(("text", pa.string(), 2), rows=[("t1",), (None,)]), [2]),
    "decimals": (keys(("price", pa.decimal128(9, 2), 3), rows=[(Decimal("0.25"),), (None,)]), [3]),
    "days before 1970": (keys(("day", pa.date32(), 4), rows=[(-2,), (1,)]), [4]),
    "times": (keys(("at", pa.timestamp("us", "UTC"), 5), rows=[(-1,)]), [5]),
    "local times": (keys(("local", pa.timestamp("us"), 6), rows=[(-62135596800000000,)]), [6]),
    "bytes": (keys(("raw", pa.binary(), 7), rows=[(b"b1",), (None,)]), [7]),
    "truth": (keys(("ok", pa.bool_(), 8), rows=[(True,), (None,)]), [8]),
    "several": (
        keys(
            ("id", pa.int32(), 1),
            ("text", pa.string(), 2),
            ("ok", pa.bool_(), 8),
            rows=[(3, "t3", False), (4, "t0", None), (5, None, False), (6, "t2", False), (7, "t3", None)],
        ),
        [1, 2, 8],
    ),
}


@pytest.mark.parametrize("take", [APPLIED, CONVERTED], ids=["applied", "converted"])
@pytest.mark.parametrize("case", KEYS)
def test_keys_of_every_type_and_none_at_all(
    spark: Any, lake: Any, tmp_path: Path, case: str, take: Take
) -> None:
    table, ids = KEYS[case]
    with fresh(spark, "db.keys", WIDE) as name:
        for start in (0, 15):
            spark.sql(f"INSERT INTO lake.{name} SELECT {ROW} FROM range({start}, {start + 15}, 1, 1)")
        delete_by(spark, name, tmp_path, table, ids)
        spark.sql(f"INSERT INTO lake.{name} SELECT {ROW} FROM range(0, 8, 1, 1)")
        before = rows(spark, name)
        assert 8 < len(before) < 38

        assert compacted(lake, name, WHOLE, take=take).kind is OutcomeKind.DONE

        assert rows(spark, name) == before
        assert [one for one in files(spark, name) if one[0] == 2] == []


@pytest.mark.parametrize("take", [APPLIED, CONVERTED], ids=["applied", "converted"])
def test_columns_that_became_something_else_since(spark: Any, lake: Any, tmp_path: Path, take: Take) -> None:
    """Renamed, widened, moved, dropped (it counts all the same), and one that older files do not have."""
    with fresh(spark, "db.evolved", "id INT, text STRING, price DECIMAL(5,2)") as name:
        spark.sql(
            f"INSERT INTO lake.{name} SELECT CAST(id AS INT), concat('t', id % 3), 1.25 FROM range(0, 12, 1, 1)"
        )
        delete_by(spark, name, tmp_path, keys(("id", pa.int32(), 1), rows=[(3,)]), [1])
        delete_by(spark, name, tmp_path, keys(("text", pa.string(), 2), rows=[("t1",)]), [2])
        spark.sql(f"ALTER TABLE lake.{name} RENAME COLUMN id TO number")
        spark.sql(f"ALTER TABLE lake.{name} ALTER COLUMN number TYPE BIGINT")
        spark.sql(f"ALTER TABLE lake.{name} ALTER COLUMN price TYPE DECIMAL(11,2)")
        spark.sql(f"ALTER TABLE lake.{name} ADD COLUMN added STRING FIRST")
        spark.sql(f"ALTER TABLE lake.{name} DROP COLUMN text")
        spark.sql(f"INSERT INTO lake.{name} SELECT IF(id = 20, NULL, 'a'), id, 2.5 FROM range(18, 24, 1, 1)")
        delete_by(spark, name, tmp_path, keys(("n", pa.int64(), 1), rows=[(6,), (21,)]), [1])
        delete_by(
            spark,
            name,
            tmp_path,
            keys(
                ("p", pa.decimal128(11, 2), 3),
                ("x", pa.string(), 4),
                rows=[(Decimal("2.50"), None), (Decimal("1.25"), "a")],
            ),
            [3, 4],
        )
        before = rows(spark, name)
        assert len(before) == 12 - 4 - 2 + 6 - 2

        assert compacted(lake, name, WHOLE, take=take).kind is OutcomeKind.DONE

        assert rows(spark, name) == before
        assert [one for one in files(spark, name) if one[0] == 2] == []
        # Both formats of a column are still told apart by whoever reads old snapshots.
        said, found = counters(spark, name)
        assert found == said


def test_floats_name_no_rows(spark: Any, lake: Any, tmp_path: Path) -> None:
    with fresh(spark, "db.floats", "id BIGINT, x DOUBLE") as name:
        spark.sql(f"INSERT INTO lake.{name} VALUES (1, 0.0), (2, -0.0)")
        spark.sql(f"INSERT INTO lake.{name} VALUES (3, 1.0)")
        delete_by(spark, name, tmp_path, keys(("x", pa.float64(), 2), rows=[(0.0,)]), [2])

        refusal = try_to_bind(lake.load_table(name), WHOLE)

        assert isinstance(refusal, Refusal)
        assert refusal.reason is Reason.EQUALITY_DELETES
        assert "column x is a double" in refusal.why


def test_a_delete_file_without_its_columns_is_named(spark: Any, lake: Any, tmp_path: Path) -> None:
    from isotherm.iceberg.compaction.rewrite import attempt
    from isotherm.parquet.table_description import described

    with fresh(spark, "db.lacks", "id BIGINT, x INT") as name:
        spark.sql(f"INSERT INTO lake.{name} VALUES (1, 1)")
        spark.sql(f"INSERT INTO lake.{name} VALUES (2, 2)")
        delete_by(spark, name, tmp_path, keys(ID, rows=[(1,)]), [2])
        table = lake.load_table(name)

        refusal = attempt(bound(table, WHOLE), described(table.metadata), lake.properties)

        assert isinstance(refusal, Refusal)
        assert refusal.reason is Reason.CORRUPT_FILE
        assert "lacks the column 2" in refusal.why
