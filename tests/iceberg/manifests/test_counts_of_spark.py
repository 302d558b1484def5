"""Spark's manifests, counted as columns, entry by entry, and by Spark: format versions 1 to 3, evolved specs, deletes."""

from collections import Counter
from typing import Any

import pytest

from isotherm.clients.manifests.reading import read_manifest_list
from isotherm.iceberg.manifests.counts import ENTRY_BY_ENTRY, Census, Question, census

pytestmark = pytest.mark.spark

COLUMNS = "id BIGINT, at TIMESTAMP, day DATE, part STRING, amount DECIMAL(12, 3), raw BINARY, ok BOOLEAN"
ROWS = """
    SELECT id, timestamp_seconds(1700000000 + id * 1800) AS at, date_add(DATE '1969-12-30', CAST(id % 5 AS INT)) AS day,
        CASE WHEN id % 7 = 0 THEN NULL ELSE concat('p/ä', id % 3) END AS part,
        CAST(id % 4 - 1.5 AS DECIMAL(12, 3)) AS amount, unhex(CASE WHEN id % 2 = 0 THEN '00FF' ELSE '' END) AS raw,
        id % 2 = 0 AS ok
    FROM range({start}, {end}, 1, 2)
"""
SPECS = {
    "hours and buckets": "PARTITIONED BY (hours(at), bucket(4, id))",
    "strings and decimals": "PARTITIONED BY (part, amount)",
    "dates and bytes": "PARTITIONED BY (day, raw, ok)",
    "nothing": "",
}


@pytest.fixture(params=[1, 2, 3], ids="v{}".format)
def version(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture(params=SPECS)
def table(spark: Any, version: int, request: pytest.FixtureRequest) -> str:
    """A few commits; deletes where the version has them, and another spec at the end."""
    codec = {1: "gzip", 2: "zstd", 3: "uncompressed"}[version]
    how = f"{SPECS[request.param]} TBLPROPERTIES ('format-version'='{version}', 'write.delete.mode'='merge-on-read', "
    how += f"'write.avro.compression-codec'='{codec}', 'write.distribution-mode'='hash')"
    name = "db.counted"
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.db")
    spark.sql(f"DROP TABLE IF EXISTS lake.{name}")
    spark.sql(f"CREATE TABLE lake.{name} ({COLUMNS}) USING iceberg {how}")
    for start in (0, 40):
        spark.sql(f"INSERT INTO lake.{name} {ROWS.format(start=start, end=start + 40)}")
    if version > 1:
        spark.sql(f"DELETE FROM lake.{name} WHERE id % 9 = 4")
    if request.param != "nothing":
        field = "bucket(4, id)" if "buckets" in request.param else SPECS[request.param][16:].partition(",")[0]
        spark.sql(f"ALTER TABLE lake.{name} DROP PARTITION FIELD {field}")
    spark.sql(f"ALTER TABLE lake.{name} ADD PARTITION FIELD truncate(10, id)")
    spark.sql(f"INSERT INTO lake.{name} {ROWS.format(start=80, end=100)}")
    spark.sql(f"CALL lake.system.rewrite_manifests('{name}')")
    last = f"INSERT INTO lake.{name} {ROWS.format(start=100, end=110)}"
    spark.sql(last if version == 1 else f"DELETE FROM lake.{name} WHERE id = 3")
    return name


def test_both_readers_count_what_spark_counts(spark: Any, lake: Any, table: str, version: int) -> None:
    loaded = lake.load_table(table)
    head = loaded.metadata.current_snapshot()
    manifests = read_manifest_list(loaded.io, head.manifest_list)

    columns = census(loaded.metadata, loaded.io, manifests, Question(), 0)
    entries = census(loaded.metadata, loaded.io, manifests, Question(), ENTRY_BY_ENTRY)

    assert columns.read_slowly == 0
    assert columns.partitions == entries.partitions
    assert counted_by_spark(spark, table) == in_sparks_form(columns)
    assert (version > 1) == any(one.deletes for one in columns.partitions.values())

    whose = Question(head.snapshot_id)
    of_head = census(loaded.metadata, loaded.io, manifests, whose, 0).partitions
    assert of_head == census(loaded.metadata, loaded.io, manifests, whose, ENTRY_BY_ENTRY).partitions
    assert any(one.added[0] or one.removed[0] for one in of_head.values())


def counted_by_spark(spark: Any, table: str) -> Counter[tuple[tuple[Any, ...], ...]]:
    """For each partition what is in it; the partitions' names are spelled differently, and left out."""
    unpartitioned = "partition" not in spark.table(f"lake.{table}.files").columns
    partition = "0" if unpartitioned else "partition"
    rows = spark.sql(
        f"SELECT {partition} AS p, content, file_format, count(*) AS n, sum(record_count) AS r, "
        f"sum(coalesce(content_size_in_bytes, file_size_in_bytes)) AS b FROM lake.{table}.files GROUP BY 1, 2, 3"
    ).collect()
    partitions: dict[Any, list[tuple[Any, ...]]] = {}
    for row in rows:
        kind = "data" if row.content == 0 else "vectors" if row.file_format == "PUFFIN" else "positions"
        partitions.setdefault(row.p, []).append((kind, row.n, row.r, row.b))
    return Counter(tuple(sorted(kinds)) for kinds in partitions.values())


def in_sparks_form(counted: Census) -> Counter[tuple[tuple[Any, ...], ...]]:
    short = {"position_deletes": "positions", "deletion_vectors": "vectors"}
    partitions = []
    for one in counted.partitions.values():
        kinds = [(short[str(kind)], *sums) for kind, sums in one.deletes.items()]
        if one.data:
            kinds.append(("data", *map(sum, zip(*one.data.values(), strict=True))))
        partitions.append(tuple(sorted(kinds)))
    return Counter(partitions)
