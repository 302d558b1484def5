"""What stands in the tables is what was in the messages: whatever is repeated, broken off, or written beside."""

import random
from typing import Any

import pytest

from isotherm.contract.events import Intent
from isotherm.contract.summary import INGEST_TOKEN, kept_token, property_name
from isotherm.runtime.clock import monotonic_s
from isotherm_ingest.marks import TakenOver
from isotherm_ingest.tables.portion import Done, Ready
from isotherm_ingest.tables.writer import TableWriter, Written
from support.changes import Source, latest, moment
from support.ingest_lab import Lab
from support.trading import STREAMS, TABLES, check, trade

pytestmark = [pytest.mark.spark, pytest.mark.stack]


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


def test_what_cannot_be_decoded_goes_to_the_dead_letters_whole(lab: Lab) -> None:
    source = Source("orders")
    good = source.insert(1)
    wrong_type = source.value("c", None, {**source.rows[1], "id": 2}).replace(b'"id":2', b'"id":"two"')
    bad_time = source.value("c", None, {**source.rows[1], "id": 3}).replace(b"2024-01-01T", b"2024-13-01T")
    no_key = source.value("c", None, {**source.rows[1], "id": None})
    cut = good[1][:-30]
    not_text = good[1].replace(b'"n1"', b'"\xff\xfe"')
    other_op = source.value("m", None, None)
    garbage = [
        b"garbage",
        b'{"schema":{"type":"struct"},"payload":7}',
        b"",
        wrong_type,
        bad_time,
        no_key,
        cut,
        not_text,
        other_op,
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
    kept = kept_token(
        last.summary.additional_properties[INGEST_TOKEN], last.sequence_number, last.snapshot_id
    )
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
