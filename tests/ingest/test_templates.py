"""Tables that ingest makes by a template, as Spark and PyIceberg see them."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pyarrow.parquet as pq
import pytest

from isotherm_ingest.table_template import OWN_PROPERTIES
from support.changes import Source, latest
from support.ingest_lab import Lab

pytestmark = [pytest.mark.spark, pytest.mark.stack]
STREAMS = r"""
  - topics: NS\.public\.orders
    table: NS.{table}
    sort_by: [NAME desc, at nulls last]
    format_version: 3
    identifier_fields: true
    partition_by: [days(at)]
    properties: {write.metadata.previous-versions-max: "2"}
  - topics: NS\.public\.customers
    table: NS.{table}
    identifier_fields: true
    partition_by: ["bucket(3, id)"]
  - topics: NS\.public\.payments
    table: NS.{table}
    mode: changelog
    sort_by: [name desc, _offset]
  - topics: NS\.public\.lines
    table: NS.{table}
    sort_by: [gone]
"""
TABLES = ("orders", "customers", "payments", "lines")


@pytest.fixture
def lab(kafka: Any, spark: Any, lake_folder: Any) -> Iterator[Lab]:
    lab = Lab(kafka, spark, lake_folder, STREAMS)
    lab.make_topics(*TABLES)
    yield lab
    lab.close()


def loaded(lab: Lab, table: str) -> Any:
    now = lab.lake.load(f"{lab.name}.{table}")
    assert now is not None
    return now.table


def order_of(table: Any) -> list[str]:
    names = table.schema()
    return [
        f"{names.find_column_name(one.source_id)} {one.direction} {one.null_order}"
        for one in table.sort_order().fields
    ]


def versions(table: Any) -> set[str]:
    return {one.name for one in Path(urlsplit(table.location()).path, "metadata").glob("*.metadata.json")}


def test_a_table_is_made_as_its_template_says_and_written_as_any_other(lab: Lab) -> None:
    """Rows are those of the source, with vectors, required keys and rows of format 3; old versions do not pile up."""
    choose, sources = random.Random(3), {name: Source(name) for name in ("orders", "customers")}
    for _ in range(6):
        for name, source in sources.items():
            for number in (choose.randrange(12) for _ in range(10)):
                if number in source.rows and choose.random() < 0.3:
                    lab.send(name, source.delete(number))
                else:
                    lab.send(name, source.insert(number, choose.randrange(80)))
        lab.ingest()
    table = loaded(lab, "orders")

    for name, source in sources.items():
        assert latest(list(source.rows.values())) == latest(lab.rows(name))
        assert loaded(lab, name).schema().identifier_field_names() == {"id"}
    assert loaded(lab, "customers").metadata.format_version == 2
    assert order_of(table) == ["name DESC NULLS LAST", "at ASC NULLS LAST"]
    assert table.metadata.format_version == 3
    assert table.schema().find_field("id").required
    assert {**OWN_PROPERTIES, **table.properties}["write.distribution-mode"] == "hash"
    assert table.properties["write.target-file-size-bytes"] == "134217728"
    named = [table.metadata_location, *(one.metadata_file for one in table.metadata.metadata_log)]
    assert versions(table) == {one.rpartition("/")[2] for one in named}
    assert len(named) == 3
    assert lab.dead() == []


def test_files_of_a_changelog_are_sorted_as_the_table_says(lab: Lab) -> None:
    source, choose = Source("payments"), random.Random(5)
    lab.send("payments", *(source.insert(number, name=choose.choice("abc")) for number in range(40)))
    lab.ingest()
    table = loaded(lab, "payments")

    assert order_of(table) == ["name DESC NULLS LAST", "_offset ASC NULLS FIRST"]
    (file,) = [one.file.file_path for one in table.scan().plan_files()]
    rows = pq.read_table(urlsplit(file).path, columns=["name", "_offset"]).to_pylist()
    assert len(rows) == 40
    assert rows == sorted(rows, key=lambda row: (-ord(row["name"]), row["_offset"]))


def test_a_driver_that_died_between_making_and_sorting_a_table_is_followed_by_one_that_sorts_it(
    lab: Lab,
) -> None:
    """The table as the first statement leaves it; one of somebody else stays as it is."""
    columns = "id INT NOT NULL, at TIMESTAMP, name STRING"
    for table, owner in (("orders", lab.name), ("payments", "somebody")):
        lab.spark.sql(f"CREATE NAMESPACE IF NOT EXISTS lake.{lab.name}")
        lab.spark.sql(
            f"CREATE TABLE lake.{lab.name}.{table} ({columns}) USING iceberg "
            f"TBLPROPERTIES ('ingest.pipeline'='{owner}', 'ingest.mode'='{'mirror' if table == 'orders' else 'changelog'}')"
        )
        lab.send(table, Source(table).insert(1))
    lab.ingest()

    assert order_of(loaded(lab, "orders")) == ["name DESC NULLS LAST", "at ASC NULLS LAST"]
    assert loaded(lab, "orders").schema().identifier_field_names() == {"id"}
    assert order_of(loaded(lab, "payments")) == []
    assert [1] == [row["id"] for row in lab.rows("orders")] == [row["id"] for row in lab.rows("payments")]


def test_what_only_the_first_message_tells_makes_no_table_and_stops_no_other(lab: Lab) -> None:
    lab.send("lines", Source("lines").insert(1))
    lab.send("payments", Source("payments").insert(1))
    lab.ingest()

    assert lab.lake.load(f"{lab.name}.lines") is None
    assert lab.is_left_out("lines")
    assert len(lab.rows("payments")) == 1


@pytest.mark.parametrize(
    ("spec", "is_one"),
    [
        ("days(at), hours(at)", False),
        ("bucket(4, id), bucket(8, id)", False),
        ("name, name", False),
        ("hours(at), at_hour", False),
        ("bucket(4, id), id, truncate(4, name), name, days(at), at_hour", True),
    ],
)
def test_a_spec_that_a_stream_must_not_say_iceberg_does_not_make(lab: Lab, spec: str, is_one: bool) -> None:
    lab.spark.sql(f"CREATE NAMESPACE IF NOT EXISTS lake.{lab.name}")
    columns = "id INT, at TIMESTAMP, name STRING" + (", at_hour INT" if "at_hour" in spec else "")
    statement = f"CREATE TABLE lake.{lab.name}.specs ({columns}) USING iceberg PARTITIONED BY ({spec})"
    if is_one:
        lab.spark.sql(statement)
        return
    with pytest.raises(Exception, match=r"(?i)redundant|more than once|exists in schema|duplicate"):
        lab.spark.sql(statement)
