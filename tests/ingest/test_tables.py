"""What stands in the tables is what was in the messages: whatever is repeated, broken off, or written beside."""

import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from isotherm.contract.events import Intent
from isotherm.contract.identity import partition_key
from isotherm.contract.summary import INGEST_TOKEN, kept_token, property_name
from isotherm.runtime.clock import monotonic_s
from isotherm_ingest.decode.debezium_messages import CHANGELOG_COLUMNS
from isotherm_ingest.marks import TakenOver
from isotherm_ingest.tables.portion import Done, Ready
from isotherm_ingest.tables.writer import TableWriter, Written
from support.changes import COLUMNS, Source, latest, moment
from support.gate import Gate
from support.ingest_lab import Lab
from support.messages import key as two_columns

pytestmark = [pytest.mark.spark, pytest.mark.stack]

STREAMS = r"""
  - {topics: "NS\\.public\\.(orders|customers)", table: "NS.{table}", mode: mirror, partition_by: ["hours(at)"]}
  - {topics: "NS\\.public\\.payments", table: "NS.{table}", mode: changelog, partition_by: ["days(at)"]}
"""
TABLES = ("orders", "customers", "payments")
HOUR_0 = 473_352
"""Of the first event time, since the epoch."""


@pytest.fixture
def lab(kafka: Any, spark: Any, lake_folder: Any) -> Iterator[Lab]:
    lab = Lab(kafka, spark, lake_folder, STREAMS)
    lab.make_topics(*TABLES)
    yield lab
    lab.close()


def trade(lab: Lab, source: Source, dice: random.Random, changes: int, from_hour: float) -> None:
    """Random changes, tombstones included."""
    messages: list[Any] = []
    for number in range(changes):
        throw = dice.random()
        if throw < 0.5 or not source.rows:
            new = max(source.rows, default=0) + dice.randrange(1, 5)
            messages.append(source.insert(new, from_hour + number / 20))
        elif throw < 0.8:
            messages.append(source.update(dice.choice(list(source.rows)), name=f"new{number}", tags=None))
        else:
            key = dice.choice(list(source.rows))
            messages += [source.delete(key), (source.key(key), None)]
    lab.send(source.table, *messages)


def check(lab: Lab, sources: dict[str, Source]) -> None:
    """Every table equals the fold of its messages."""
    for table in ("orders", "customers"):
        if table in sources:
            assert latest(sources[table].rows.values()) == latest(lab.rows(table)), table
    if "payments" in sources:
        rows = sorted(lab.rows("payments"), key=lambda row: row["_offset"])
        told = [(row["_op"], {name: row[name] for name in sources["payments"].columns}) for row in rows]
        expected = sources["payments"].log
        assert [op for op, _ in expected] == [op for op, _ in told]
        assert latest(row for _, row in expected) == latest(row for _, row in told)


def test_tables_equal_the_fold_of_their_messages(lab: Lab) -> None:
    dice = random.Random(7)
    sources = {table: Source(table) for table in TABLES}
    for lap in range(2):
        for source in sources.values():
            trade(lab, source, dice, 40, lap * 2)
        lab.ingest()

        check(lab, sources)

    lab.announce()
    for table in TABLES:
        assert [one.snapshot_id for one in lab.snapshots(table)] == [
            one.snapshot_id for one in lab.events(table)
        ]
        assert all(event.origin == "ingest" and event.partitions_complete for event in lab.events(table))
    intents = [one for one in lab.control() if isinstance(one, Intent) and one.table.endswith("orders")]
    ids = list(dict.fromkeys(one.intent_id for one in intents))
    for intent_id, snapshot, event in zip(ids, lab.snapshots("orders"), lab.events("orders"), strict=True):
        opened, *renewed, closed = [one for one in intents if one.intent_id == intent_id]
        assert ("open", "closed", "committed") == (opened.state, closed.state, closed.outcome)
        assert all(one.state == "open" for one in renewed)
        assert opened.at_ms <= snapshot.timestamp_ms <= closed.at_ms
        named = [one for one in (opened, *renewed) if one.at_ms <= snapshot.timestamp_ms][-1].partitions
        assert {change.partition for change in event.partitions} == set(named or ())
    boundaries = [event.valid_through_ms for event in lab.events("payments")]
    assert sorted(boundaries) == boundaries
    assert all(
        int(moment(0).timestamp() * 1000) < one < int(moment(6).timestamp() * 1000) for one in boundaries
    )


def test_a_large_batch_is_written_by_several_tasks_and_holds_the_same_rows(
    kafka: Any, spark: Any, lake_folder: Any
) -> None:
    lab = Lab(kafka, spark, lake_folder, STREAMS)
    tables = ("orders", "payments")
    lab.make_topics(*tables, partitions=3)
    sources = {table: Source(table) for table in tables}
    for source in sources.values():
        keys = range(7_500)
        messages = [source.insert(key, key % 5) for key in keys]
        messages += [source.update(key, name=f"second {key}") for key in keys]
        messages += [source.delete(key) if key % 3 else source.update(key, paid=True) for key in keys]
        by_partition: dict[int, list[Any]] = {}
        for place, message in enumerate(messages):
            by_partition.setdefault(place % len(keys) % 3, []).append(message)
        for partition, mine in by_partition.items():
            lab.send(source.table, *mine, partition=partition)
    lab.ingest()

    assert latest(sources["orders"].rows.values()) == latest(lab.rows("orders"))
    told = [(row["_op"], row["id"], row["name"]) for row in lab.rows("payments")]
    expected = [(op, row["id"], row["name"]) for op, row in sources["payments"].log]
    assert sorted(told, key=str) == sorted(expected, key=str)
    # One file for each partition of the changelog, whichever task had its rows.
    (snapshot,) = lab.snapshots("payments")
    assert snapshot.summary.additional_properties["added-data-files"] == "1"
    lab.close()


def test_lost_marks_change_nothing(lab: Lab) -> None:
    sources = {table: Source(table) for table in TABLES}
    for source in sources.values():
        trade(lab, source, random.Random(3), 20, 0)
    lab.ingest()
    before = {table: [one.snapshot_id for one in lab.snapshots(table)] for table in TABLES}

    lab.close()
    lab.lose_marks()
    lab.again()
    lab.ingest()

    assert before == {table: [one.snapshot_id for one in lab.snapshots(table)] for table in TABLES}
    for source in sources.values():
        trade(lab, source, random.Random(4), 10, 1)
    lab.close()
    lab.lose_marks()
    lab.again()
    lab.ingest()
    check(lab, sources)
    assert {table: len(before[table]) + 1 for table in TABLES} == {
        table: len(lab.snapshots(table)) for table in TABLES
    }


class CrashError(RuntimeError):
    """The driver is gone: before the commit, or after it."""


def test_a_crash_after_some_tables_converges(lab: Lab) -> None:
    class Dying(TableWriter):
        def write(self, ready: Ready, done: Done) -> Written:
            if self.name.endswith("payments"):
                raise CrashError("before the last table")
            super().write(ready, done)
            raise CrashError("after the commit")

    sources = {table: Source(table) for table in TABLES}
    for source in sources.values():
        trade(lab, source, random.Random(5), 20, 0)
    lab.again(Dying)
    lab.ingest()
    assert [1, 1, 0] == [len(lab.snapshots(table)) for table in TABLES]

    lab.again()
    lab.ingest()
    lab.announce()

    assert [1, 1, 1] == [len(lab.snapshots(table)) for table in TABLES]
    check(lab, sources)
    for table in TABLES:
        assert [one.snapshot_id for one in lab.snapshots(table)] == [
            one.snapshot_id for one in lab.events(table)
        ]


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


# Bad input


def test_what_cannot_be_decoded_goes_to_the_dead_letters_whole(lab: Lab) -> None:
    source = Source("orders")
    good = source.insert(1)
    wrong_type = source.value("c", None, {**source.rows[1], "id": 2}).replace(b'"id":2', b'"id":"two"')
    bad_time = source.value("c", None, {**source.rows[1], "id": 3}).replace(b"2024-01-01T", b"2024-13-01T")
    no_key = source.value("c", None, {**source.rows[1], "id": None})
    cut = good[1][:-30]
    not_text = good[1].replace(b'"n1"', b'"\xff\xfe"')
    truncate = source.value("t", None, None)
    garbage = [
        b"garbage",
        b'{"schema":{"type":"struct"},"payload":7}',
        b"",
        wrong_type,
        bad_time,
        no_key,
        cut,
        not_text,
        truncate,
    ]
    lab.send("orders", good)
    lab.send(
        "orders",
        *((b"k%d" % place, value) for place, value in enumerate(garbage)),
        headers=[("trace", b"\x00\x01")],
    )
    lab.send("orders", source.insert(5))
    lab.ingest()

    assert latest(source.rows.values()) == latest(lab.rows("orders"))
    letters = lab.dead()
    assert sorted(garbage) == sorted(letter.value or b"" for letter in letters)
    by_key = {letter.key: letter for letter in letters}
    reasons = {
        0: b"no_schema", 1: b"undecodable", 2: b"no_schema", 3: b"undecodable_value", 4: b"undecodable_value",
        5: b"null_key", 6: b"undecodable", 7: b"not_utf8", 8: b"unsupported_op",
    }  # fmt: skip
    assert reasons == {place: by_key[b"k%d" % place].headers["isotherm.reason"] for place in reasons}
    assert b"\x00\x01" == by_key[b"k4"].headers["trace"]
    assert b"undecodable_value:at" == by_key[b"k4"].headers["isotherm.error"]
    assert (b"5", lab.topic("orders").encode()) == (
        by_key[b"k4"].headers["isotherm.offset"],
        by_key[b"k4"].headers["isotherm.topic"],
    )


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


# Beside other writers


class AtTheGate(TableWriter):
    """Holds its first write open, once the files are written."""

    gate: Gate

    def write(self, ready: Ready, done: Done) -> Written:
        self.gate.function()(None)
        return super().write(ready, done)


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Gate]:
    folder = tmp_path / "gate"
    folder.mkdir()
    gate = Gate(folder)
    AtTheGate.gate = gate
    yield gate
    gate.open()
    gate.close()


@pytest.mark.parametrize("table", ["orders", "payments"])
def test_a_write_that_loses_a_race_is_computed_again(lab: Lab, gate: Gate, table: str) -> None:
    """Somebody else inserts a row while the write is open: with a key of ours in the mirror, any row in the changelog."""
    source = Source(table)
    lab.send(table, source.insert(1), source.insert(2))
    lab.ingest()
    lab.again(AtTheGate)
    lab.send(table, source.update(1, name="newer"), source.insert(3))
    with ThreadPoolExecutor(1) as pool:
        write = pool.submit(lab.ingest)
        gate.wait(write)
        number = 3 if table == "orders" else 77
        theirs = {**dict.fromkeys(source.columns), "id": number, "at": moment(0)}
        lab.spark.sql(
            f"INSERT INTO lake.{lab.name}.{table} (id, at) VALUES ({number}, TIMESTAMP'2024-01-01 00:00:00Z')"
        )
        gate.open()
        write.result(timeout=100)
    lab.announce()

    rows = [{name: row[name] for name in source.columns} for row in lab.rows(table)]
    told = [*(row for _, row in source.log), theirs] if table == "payments" else source.rows.values()
    assert latest(told) == latest(rows)
    first, foreign, ours = lab.snapshots(table)
    assert [INGEST_TOKEN in (one.summary.additional_properties or {}) for one in (first, foreign, ours)] == [
        True,
        False,
        True,
    ]
    assert ["ingest", "foreign", "ingest"] == [event.origin for event in lab.events(table)]
    # By id: a slow machine renews intents.
    intents = [one for one in lab.control() if isinstance(one, Intent)]
    of_this_write = [one for one in intents if one.intent_id != intents[0].intent_id]
    said = list(dict.fromkeys((one.intent_id, one.state, one.attempt) for one in of_this_write))
    expected = [("open", 1), ("open", 2), ("closed", 2)] if table == "orders" else []
    assert expected == [(state, attempt) for _, state, attempt in said]
    assert len({intent_id for intent_id, _, _ in said}) <= 1
    if table == "orders":
        (recomputed,) = lab.metrics.recomputed.labels(f"{lab.name}.orders").collect()[0].samples[:1]
        assert 1 == recomputed.value


def test_what_does_not_fit_after_a_lost_race_goes_to_the_dead_letters(lab: Lab, gate: Gate) -> None:
    """A column is dropped and added with another type while the write is open: the vector moves past such rows."""
    source = Source("payments")
    nameless = Source("payments", {name: kind for name, kind in COLUMNS.items() if name != "name"})
    lab.send("payments", source.insert(1))
    lab.ingest()
    lab.again(AtTheGate)
    misfit = source.insert(2)
    lab.send("payments", misfit, nameless.insert(3))
    with ThreadPoolExecutor(1) as pool:
        write = pool.submit(lab.ingest)
        gate.wait(write)
        table = f"lake.{lab.name}.payments"
        lab.spark.sql(f"ALTER TABLE {table} DROP COLUMN name")
        lab.spark.sql(f"ALTER TABLE {table} ADD COLUMN name BIGINT")
        lab.spark.sql(f"INSERT INTO {table} (id, at) VALUES (77, TIMESTAMP'2024-01-01 00:00:00Z')")
        gate.open()
        write.result(timeout=100)

    assert sorted(row["id"] for row in lab.rows("payments")) == [1, 3, 77]
    assert [letter.value for letter in lab.dead()] == [misfit[1]]
    assert lab.dead()[0].headers["isotherm.reason"] == b"incompatible_schema"


def test_a_row_that_comes_into_an_empty_table_meanwhile_keeps_what_is_not_told(lab: Lab, gate: Gate) -> None:
    source = Source("orders")
    source.insert(1)
    lab.again(AtTheGate)
    lab.send("orders", source.update(1, name="__debezium_unavailable_value", paid=True))
    with ThreadPoolExecutor(1) as pool:
        write = pool.submit(lab.ingest)
        gate.wait(write)
        lab.spark.sql(
            f"INSERT INTO lake.{lab.name}.orders (id, name, at) VALUES (1, 'theirs', TIMESTAMP'2024-01-01 00:00:00Z')"
        )
        gate.open()
        write.result(timeout=100)

    assert [(row["id"], row["name"], row["paid"]) for row in lab.rows("orders")] == [(1, "theirs", True)]


def test_every_snapshot_is_announced_in_order_whoever_made_it(lab: Lab) -> None:
    source = Source("orders")
    lab.send("orders", source.insert(1))
    lab.ingest()
    lab.announce()
    # The emitter crashes: one of ours and one of theirs stay unannounced.
    lab.send("orders", source.insert(2))
    lab.ingest()
    lab.spark.sql(f"DELETE FROM lake.{lab.name}.orders WHERE id = 1")
    lab.again()
    lab.announce()
    lab.announce()

    history = lab.snapshots("orders")
    events = lab.events("orders")
    assert 3 == len(history)
    assert [one.snapshot_id for one in history] == [one.snapshot_id for one in events]
    assert [None, *(one.snapshot_id for one in history[:-1])] == [one.parent_id for one in events]
    assert ["ingest", "ingest", "foreign"] == [one.origin for one in events]
    assert [lab.name, lab.name, ""] == [one.writer for one in events]
    topic = lab.topic("orders")
    assert [{topic: {"0": 1}}, {topic: {"0": 2}}, {}] == [dict(one.source_offsets) for one in events]
    assert [(1, 0), (1, 0)] == [
        (one.partitions[0].added_files, one.partitions[0].removed_files) for one in events[:2]
    ]


# Holes, and two drivers


ON_HOLE = r"""
  - {topics: "NS\\.public\\.orders", table: "NS.{table}", partition_by: ["hours(at)"], on_hole: HOW}
"""


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("how", ["halt", "backfill"])
def test_a_rollback_is_told_whatever_the_property_says(
    kafka: Any, spark: Any, lake_folder: Any, how: str, *, restart: bool
) -> None:
    """As the daemon does it: the vector is kept in a property, then somebody rolls the table back."""
    lab = Lab(kafka, spark, lake_folder, ON_HOLE.replace("HOW", how))
    lab.make_topics("orders")
    source = Source("orders")
    for number in range(3):
        lab.send("orders", source.insert(number))
        lab.ingest()
    table = f"lake.{lab.name}.orders"
    first, _, last = lab.snapshots("orders")
    kept = kept_token(last.summary.additional_properties[INGEST_TOKEN], last.sequence_number)
    lab.spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('{property_name(lab.name)}' = '{kept}')")
    lab.spark.sql(f"CALL lake.system.rollback_to_snapshot('{lab.name}.orders', {first.snapshot_id})")
    if restart:
        lab.again()
    lab.send("orders", source.insert(3))
    lab.ingest()

    expected = [0] if how == "halt" else [0, 1, 2, 3]
    assert sorted(row["id"] for row in lab.rows("orders")) == expected
    assert lab.hole("orders", "table_rolled_back") >= 1
    lab.close()


def test_of_two_drivers_the_one_that_began_last_goes_on(lab: Lab) -> None:
    source = Source("payments")
    lab.send("payments", source.insert(1))
    lab.ingest()
    first = lab.driver
    lab.start_another()
    lab.send("payments", source.insert(2))
    with pytest.raises(TakenOver):
        first.turn(monotonic_s())
    first.stop()
    lab.send("payments", source.insert(3))
    lab.ingest()

    assert sorted(row["id"] for row in lab.rows("payments")) == [1, 2, 3]


def test_dead_letters_and_tombstones_are_passed_once_also_after_a_restart(lab: Lab) -> None:
    source = Source("orders")
    lab.send("orders", source.insert(1))
    lab.ingest()
    lab.send("orders", (b"k", b"garbage"), (source.key(9), None))
    lab.ingest()
    lab.again()
    lab.ingest()
    lab.forget("orders", 3)
    lab.again()
    lab.send("orders", source.insert(2))
    lab.ingest()

    assert [letter.value for letter in lab.dead()] == [b"garbage"]
    assert latest(source.rows.values()) == latest(lab.rows("orders"))


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


@pytest.mark.parametrize("restart", [False, True])
def test_a_topic_that_is_deleted_and_made_again_is_the_trouble_of_its_table_alone(
    kafka: Any, spark: Any, lake_folder: Any, *, restart: bool
) -> None:
    streams = r"""
  - {topics: "NS\\.public\\.orders", table: "NS.{table}", on_hole: accept}
  - {topics: "NS\\.public\\.payments", table: "NS.{table}", mode: changelog}
"""
    lab = Lab(kafka, spark, lake_folder, streams)
    lab.make_topics("orders", "payments")
    orders, payments = Source("orders"), Source("payments")
    lab.send("orders", *(orders.insert(number) for number in range(5)))
    lab.send("payments", payments.insert(1))
    lab.ingest()
    lab.delete_topic("orders")
    lab.send("payments", payments.insert(2))
    lab.ingest()
    if restart:
        lab.again()
    lab.make_topics("orders")
    lab.send("orders", orders.update(1, name="of the new topic"), orders.insert(9))
    lab.ingest()

    assert latest(orders.rows.values()) == latest(lab.rows("orders"))
    assert sorted(row["id"] for row in lab.rows("payments")) == [1, 2]
    assert lab.hole("orders", "topic_made_again") == 1
    lab.close()


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
