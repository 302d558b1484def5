"""A table whose columns, partitions, key or rows are not as the messages want them: it follows, or is refused and waits."""

import random
from collections.abc import Iterator
from typing import Any

import pytest
from structlog.testing import capture_logs

from isotherm.contract.events import Intent
from isotherm.contract.identity import partition_key
from isotherm.runtime import clock
from isotherm_ingest.decode.debezium_messages import CHANGELOG_COLUMNS
from support.changes import COLUMNS, Source, latest, moment
from support.ingest_lab import Lab
from support.messages import key as two_columns
from support.trading import TABLES, check, trade
from support.wire import PLACEHOLDER

pytestmark = [pytest.mark.spark, pytest.mark.stack]
HOUR_0 = 473_352
"""Of the first event time, since the epoch."""


def test_a_column_that_comes_later_is_added(lab: Lab) -> None:
    from support.changes import COLUMNS

    old = Source("orders", columns={name: COLUMNS[name] for name in ("id", "name", "at")})
    lab.send("orders", old.insert(1), old.insert(2))
    lab.ingest()
    new = Source("orders")
    new.rows = {2: {**dict.fromkeys(COLUMNS), **old.rows[2]}}
    lab.send("orders", new.insert(3), new.update(2, paid=True), old.insert(4))
    lab.ingest()

    expected = {
        1: {**dict.fromkeys(COLUMNS), **old.rows[1]},
        4: {**dict.fromkeys(COLUMNS), **old.rows[4]},
        **new.rows,
    }

    assert latest(expected.values()) == latest(lab.rows("orders"))


def test_a_table_is_made_for_what_came_first(lab: Lab) -> None:
    """Of two schemas that do not fit together, in its first batch."""
    narrow = {name: COLUMNS[name] for name in ("id", "paid", "at")}
    other = narrow | {"paid": COLUMNS["name"]}
    for table, first, second in (("orders", other, narrow), ("customers", narrow, other)):
        sources = [Source(table, columns) for columns in (first, second)]
        lab.send(table, *(source.insert(key, paid=None) for key, source in enumerate(sources)))
    lab.ingest()

    assert [0] == [row["id"] for row in lab.rows("orders")] == [row["id"] for row in lab.rows("customers")]
    assert {b"incompatible_schema"} == {letter.headers["isotherm.reason"] for letter in lab.dead()}


def test_a_column_that_was_dropped_comes_back_with_a_message_that_has_it(lab: Lab) -> None:
    """At the source and in the lake; what the driver remembers of older messages is no such message."""
    old = Source("payments")
    new = Source("payments", {name: kind for name, kind in COLUMNS.items() if name != "paid"})
    lab.send("payments", old.insert(1), new.insert(2))
    lab.ingest()
    lab.spark.sql(f"ALTER TABLE lake.{lab.name}.payments DROP COLUMN paid")
    lab.send("payments", new.insert(3))
    lab.ingest()
    without = lab.rows("payments")
    lab.send("payments", old.insert(4, paid=True), new.insert(5))
    lab.ingest()

    assert [sorted(row) for row in without] == [sorted({*new.columns, *CHANGELOG_COLUMNS})] * 3
    assert sorted((row["id"], row["paid"]) for row in lab.rows("payments")) == [
        (1, None), (2, None), (3, None), (4, True), (5, None),
    ]  # fmt: skip
    assert lab.dead() == []


def test_an_unchanged_large_value_is_kept(lab: Lab) -> None:
    away = "__debezium_unavailable_value"
    source = Source("orders")
    lab.send("orders", source.insert(1, name="large"), source.insert(2, name="old"))
    lab.ingest()
    # Known from the table; known from the batch itself; and one that is only alike.
    lab.send("orders", source.update(1, name=away, paid=True), source.update(2, name="newer"))
    lab.send("orders", source.update(2, name=away, paid=False), source.insert(3, name=f"not {away}"))
    lab.ingest()

    assert {1: "large", 2: "newer", 3: f"not {away}"} == {
        row["id"]: row["name"] for row in lab.rows("orders")
    }
    assert {1: True, 2: False, 3: None} == {row["id"]: row["paid"] for row in lab.rows("orders")}


@pytest.fixture
def little_is_brought(spark: Any) -> Iterator[None]:
    """Spark brings no more than a megabyte of what a job finds to its driver."""
    context = spark.sparkContext._jsc.sc()  # noqa: SLF001 (Spark's: each job asks this anew)
    conf, name = context.conf(), "spark.driver.maxResultSize"
    conf.set(name, "1m")
    yield
    conf.remove(name)


def test_unchanged_large_values_that_are_more_than_spark_brings_to_its_driver_stay_in_smaller_pieces(
    lab: Lab, little_is_brought: None
) -> None:
    """The messages are small, so nothing that counts them sees it coming."""
    source = Source("orders")
    large = {number: f"{number}" * 200_000 for number in range(8)}
    lab.send("orders", *(source.insert(number, name=name) for number, name in large.items()))
    lab.ingest()
    told = {"name": PLACEHOLDER, "paid": True}
    small = {number: source.value("u", None, {**row, **told}) for number, row in source.rows.items()}
    lab.send("orders", *((source.key(number), value) for number, value in small.items()))
    with capture_logs() as logs:
        for turn in range(8):
            lab.driver.turn(clock.monotonic_s() + 1_000 * turn)

    assert {number: (name, True) for number, name in large.items()} == {
        row["id"]: (row["name"], row["paid"]) for row in lab.rows("orders")
    }
    failed = [one["error"] for one in logs if one["event"] == "batch_failed"]
    assert len(failed) == 1
    assert "bigger than spark.driver.maxResultSize" in failed[0]


def test_a_row_that_changes_its_partition_moves(lab: Lab) -> None:
    """The intent names the partition that the row leaves, and the one that it goes to."""
    source = Source("orders")
    lab.send("orders", source.insert(1, 0), source.insert(2, 1))
    lab.ingest()
    lab.send("orders", source.update(1, at=moment(30)))
    lab.ingest()

    assert latest(source.rows.values()) == latest(lab.rows("orders"))
    # By id: a slow machine renews an intent.
    opened = {one.intent_id: one for one in lab.control() if isinstance(one, Intent) and one.state == "open"}
    first, second = ({*one.partitions} if one.partitions is not None else None for one in opened.values())
    assert {partition_key({1000: HOUR_0}), partition_key({1000: HOUR_0 + 1})} == first
    assert {partition_key({1000: HOUR_0}), partition_key({1000: HOUR_0 + 30})} == second


def test_a_table_of_somebody_else_is_refused_and_caught_up_later(lab: Lab) -> None:
    sources = {table: Source(table) for table in TABLES}
    lab.spark.sql(f"CREATE NAMESPACE IF NOT EXISTS lake.{lab.name}")
    lab.spark.sql(f"CREATE TABLE lake.{lab.name}.orders USING iceberg AS SELECT 1L AS id, 'theirs' AS name")
    for lap in range(2):
        for source in sources.values():
            trade(lab, source, random.Random(lap), 10, lap)
        lab.ingest()

    assert [{"id": 1, "name": "theirs"}] == lab.rows("orders")
    check(lab, {name: sources[name] for name in ("customers", "payments")})

    lab.spark.sql(f"DROP TABLE lake.{lab.name}.orders")
    lab.again()
    lab.send("orders", sources["orders"].insert(1000))
    lab.ingest()

    check(lab, sources)


def test_a_primary_key_that_gains_a_column_is_refused_and_loses_no_row(lab: Lab) -> None:
    source = Source("orders")
    lab.send("orders", source.insert(1), source.insert(2))
    lab.ingest()
    _, value = Source("orders").insert(1, name="another one of id 1")
    lab.send("orders", (two_columns("id", "name").encode(), value))
    lab.ingest()
    lab.again()
    lab.ingest()

    assert latest(source.rows.values()) == latest(lab.rows("orders"))
    assert lab.is_left_out("orders")


def test_a_key_that_moves_to_a_new_partition_keeps_its_newest_row(lab: Lab) -> None:
    """Its older change stands in the old partition at a higher offset, and is read first."""
    source = Source("orders")
    lab.send("orders", *(source.insert(number) for number in range(5)), partition=0)
    lab.ingest()
    lab.send("orders", *(source.update(1, name=f"old {number}") for number in range(5)), partition=0)
    lab.grow("orders", 2)
    lab.send("orders", source.update(1, name="newest"), partition=1)
    lab.ingest()

    assert {row["id"]: row["name"] for row in lab.rows("orders")}[1] == "newest"


def test_a_producer_that_hears_of_a_new_partition_later_than_ingest_loses_no_change(lab: Lab) -> None:
    """Producers ask for the partitions of a topic every five minutes: until then they write to the old ones."""
    source = Source("orders")
    lab.send("orders", *(source.insert(number) for number in range(20)), partition=0)
    lab.ingest()
    lab.grow("orders", 2)
    lab.ingest()
    lab.send("orders", source.update(7, name="older"), source.update(8, name="older"), partition=0)
    lab.send("orders", source.update(7, name="newer"), source.delete(8), partition=1)
    lab.ingest()
    lab.ingest()
    rows = {row["id"]: row["name"] for row in lab.rows("orders")}

    assert rows[7] == "newer"
    assert 8 not in rows
