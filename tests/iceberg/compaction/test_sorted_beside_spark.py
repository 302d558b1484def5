"""Spark sorts a table's files by its sort order, and so do we: in each new file Spark finds the order of its own sort."""

import pytest

from isotherm.clients.catalog import open_catalog
from isotherm.contract.identity import UNPARTITIONED
from isotherm.core.model.jobs import OutcomeKind, Take
from isotherm.core.policy.sort_text import TABLE
from support.rewriting import compacted
from support.spark import CATALOG

COLUMNS = "id BIGINT, word STRING, number DOUBLE, at TIMESTAMP, inner STRUCT<a: INT, b: STRING>"
ROWS = (
    "SELECT id, IF(id % 7 = 0, NULL, concat(char(97 + id * 5 % 26), 'ä', id * 31 % 13)) AS word, "
    "CASE id % 9 WHEN 0 THEN NULL WHEN 1 THEN double('NaN') WHEN 2 THEN -double('Infinity') "
    "ELSE id * 37 % 101 - 50 END AS number, timestamp_seconds(1700000000 + id * 7919 % 864000) AS at, "
    "IF(id % 5 = 0, NULL, named_struct('a', CAST(id * 17 % 23 AS INT), 'b', 'x')) AS inner FROM range({}, {}, 1, 1)"
)
ORDERS = {
    "word DESC NULLS LAST, id": "word DESC NULLS LAST, id",
    "number ASC NULLS LAST, id DESC": "number ASC NULLS LAST, id DESC",
    "inner.a ASC NULLS FIRST, number DESC NULLS FIRST, id": "inner.a ASC NULLS FIRST, number DESC NULLS FIRST, id",
    "days(at) DESC, truncate(1, word), id": "date(at) DESC, substring(word, 1, 1) ASC NULLS FIRST, id",
}


@pytest.mark.spark
@pytest.mark.parametrize(("order", "version"), [*zip(ORDERS, (2, 3, 2, 3), strict=True)])
def test_each_new_file_is_in_the_order_in_which_spark_sorts(spark, lake_folder, order, version):
    name = "db.sorted"
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.db")
    spark.sql(f"DROP TABLE IF EXISTS lake.{name}")
    spark.sql(
        f"CREATE TABLE lake.{name} ({COLUMNS}) USING iceberg TBLPROPERTIES ('format-version'='{version}', "
        "'write.delete.mode'='merge-on-read', 'write.parquet.row-group-size-bytes'='4096')"
    )
    for start in (0, 200, 400, 600):
        spark.sql(f"INSERT INTO lake.{name} {ROWS.format(start, start + 200)}")
    spark.sql(f"DELETE FROM lake.{name} WHERE id % 10 = 3")
    spark.sql(f"ALTER TABLE lake.{name} WRITE LOCALLY ORDERED BY {order}")
    kept = "*" if version == 2 else "*, _row_id, _last_updated_sequence_number"

    def rows():
        return [str(row) for row in spark.sql(f"SELECT {kept} FROM lake.{name} ORDER BY id").collect()]

    before, catalog = rows(), open_catalog(CATALOG, lake_folder.pyiceberg_properties, 60)
    take = Take(2**40, with_deletes=True)
    outcome = compacted(catalog, name, UNPARTITIONED, take=take, target_size_bytes=3000, sort=TABLE)
    assert outcome.kind is OutcomeKind.DONE

    assert rows() == before
    found = spark.sql(f"SELECT sort_order_id, file_path FROM lake.{name}.files").collect()
    assert len(found) > 1
    assert {row.sort_order_id for row in found} == {1}
    for row in found:
        in_file = f"FROM lake.{name} WHERE _file = '{row.file_path}'"
        ours = [one.id for one in spark.sql(f"SELECT id {in_file} ORDER BY _pos").collect()]
        assert ours == [
            one.id for one in spark.sql(f"SELECT id {in_file} ORDER BY {ORDERS[order]}").collect()
        ]
