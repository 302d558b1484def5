"""Truncates, on a broker and Spark: a mirror holds what its source holds then, by plain Python, whatever is broken off."""

import random
from collections.abc import Iterator
from typing import Any

import pytest

from isotherm.contract.events import Intent
from isotherm_ingest.tables.portion import Done, Ready
from isotherm_ingest.tables.writer import TableWriter, Written
from support.changes import Source, latest
from support.ingest_lab import Lab
from support.trading import check

pytestmark = [pytest.mark.spark, pytest.mark.stack]

STREAMS = r"""
  - {topics: "NS\\.public\\.orders", table: "NS.{table}", partition_by: ["hours(at)"], properties: {format-version: "2"}}
  - {topics: "NS\\.public\\.customers", table: "NS.{table}", partition_by: ["bucket(3, id)"], properties: {format-version: "3"}}
  - {topics: "NS\\.public\\.payments", table: "NS.{table}", mode: changelog, partition_by: ["days(at)"]}
"""
TABLES = ("orders", "customers", "payments")
MIRRORS = TABLES[:2]


@pytest.fixture
def lab(kafka: Any, spark: Any, lake_folder: Any) -> Iterator[Lab]:
    lab = Lab(kafka, spark, lake_folder, STREAMS)
    lab.make_topics(*TABLES)
    yield lab
    lab.close()


def some(source: Source, dice: random.Random, count: int) -> list[Any]:
    """Changes of a source, with a truncate here and there."""
    found: list[Any] = []
    for number in range(count):
        throw = dice.random()
        if throw < 0.08:
            found.append(source.truncate())
        elif throw < 0.5 or not source.rows:
            found.append(
                source.insert(dice.choice([one for one in range(30) if one not in source.rows]), number / 9)
            )
        elif throw < 0.8:
            found.append(source.update(dice.choice(list(source.rows)), name=f"new{number}"))
        else:
            key = dice.choice(list(source.rows))
            found += [source.delete(key), (source.key(key), None)]
    return found


@pytest.mark.parametrize("table", MIRRORS)
def test_a_truncate_empties_a_mirror_in_its_place(lab: Lab, table: str) -> None:
    source = Source(table)
    lab.send(table, source.insert(1), source.insert(2, 5), source.insert(3))
    lab.ingest()
    lab.send(table, source.update(1, name="newer"), source.delete(3))
    lab.ingest()  # the table has deletes
    before = len(lab.snapshots(table))
    lab.send(
        table,
        source.insert(4, 9),
        (None, b"garbage"),
        source.truncate(),
        source.insert(5),
        source.truncate(),
        source.insert(1, 2),
        source.update(1, paid=True),
        source.insert(6, 7),
        source.delete(6),
    )
    lab.ingest()

    check(lab, {table: source})
    assert len(lab.snapshots(table)) == before + 1
    assert [letter.value for letter in lab.dead()] == [b"garbage"]
    lab.send(table, source.truncate())
    lab.ingest()
    assert lab.rows(table) == []
    assert len(lab.snapshots(table)) == before + 2
    lab.again()
    lab.ingest()
    assert len(lab.snapshots(table)) == before + 2
    lab.send(table, source.insert(7))
    lab.ingest()
    check(lab, {table: source})
    lab.announce()
    events = lab.events(table)
    assert [one.snapshot_id for one in events] == [one.snapshot_id for one in lab.snapshots(table)]
    assert all(one.origin == "ingest" and one.partitions_complete for one in events)
    summary = lab.snapshots(table)[-1].summary.additional_properties
    assert (summary["total-records"], summary["total-delete-files"]) == ("1", "0")


def test_the_intent_of_a_truncate_names_the_whole_table(lab: Lab) -> None:
    source = Source("orders")
    lab.send("orders", source.insert(1), source.insert(2, 50))
    lab.ingest()
    lab.send("orders", source.truncate(), source.insert(1, 3))
    lab.ingest()

    *_, opened, closed = [one for one in lab.control() if isinstance(one, Intent)]
    assert (opened.state, opened.partitions) == ("open", None)
    assert (closed.state, closed.outcome) == ("closed", "committed")


def test_a_truncate_among_many_changes_is_seen_by_each_task(lab: Lab) -> None:
    source = Source("orders")
    lab.send("orders", *(source.insert(key, key % 5) for key in range(200)))
    lab.ingest()
    messages: list[Any] = [source.insert(key, key % 5) for key in range(200, 12_000)]
    messages.append(source.truncate())
    messages += [source.insert(key, key % 7) for key in range(100, 10_000)]
    lab.send("orders", *messages)
    lab.ingest()

    check(lab, {"orders": source})
    assert len(lab.snapshots("orders")) == 2


class CrashError(RuntimeError):
    """The driver is gone."""


class DiesBefore(TableWriter):
    """Everything is written, and nothing committed."""

    def write(self, ready: Ready, done: Done) -> Written:
        raise CrashError(f"{done.survey.rows} changes of batch {ready.portion.batch} are not committed")


class DiesBehind(TableWriter):
    """Nobody is told of the commit."""

    def write(self, ready: Ready, done: Done) -> Written:
        super().write(ready, done)
        raise CrashError("behind the commit")


class IsLate(TableWriter):
    """Somebody else adds a row once the files are written."""

    theirs = ""

    def write(self, ready: Ready, done: Done) -> Written:
        if self.theirs:
            self._sessions.own.sql(self.theirs)
            IsLate.theirs = ""
        return super().write(ready, done)


def test_rows_that_somebody_adds_meanwhile_are_seen_before_they_go(lab: Lab) -> None:
    """As of any write to a mirror that loses a race: it is computed again, on what is there then."""
    source = Source("orders")
    lab.send("orders", source.insert(1), source.insert(2))
    lab.ingest()
    lab.again(IsLate)
    IsLate.theirs = f"INSERT INTO lake.{lab.name}.orders (id) VALUES (77)"
    lab.send("orders", source.truncate(), source.insert(3))
    lab.ingest()

    check(lab, {"orders": source})
    labels = {"table": f"{lab.name}.orders"}
    assert lab.metrics.registry.get_sample_value("isotherm_ingest_merges_recomputed_total", labels) == 1
    assert [one.operation.value for one in (shot.summary for shot in lab.snapshots("orders"))] == [
        "append",
        "append",
        "overwrite",
    ]
    intents = [one for one in lab.control() if isinstance(one, Intent)]
    assert {one.partitions for one in intents[-3:]} == {None}
    assert (intents[-1].attempt, intents[-1].outcome) == (2, "committed")


@pytest.mark.parametrize("seed", [1, 2])
def test_whatever_is_broken_off_mirrors_hold_what_their_sources_hold(lab: Lab, seed: int) -> None:
    dice = random.Random(seed)
    sources = {table: Source(table) for table in MIRRORS}
    for _ in range(6):
        for table, source in sources.items():
            lab.send(table, *some(source, dice, dice.randrange(1, 25)))
        match dice.randrange(4):
            case 0:
                lab.again(DiesBefore)
                lab.ingest()
                lab.again()
            case 1:
                lab.again(DiesBehind)
                lab.ingest()
                lab.again()
            case 2:
                lab.close()
                lab.lose_marks()
                lab.again()
        lab.ingest()
        check(lab, sources)
    assert lab.dead() == []


def test_a_changelog_has_a_row_of_its_own_for_it(lab: Lab) -> None:
    source = Source("payments")
    lab.send("payments", source.truncate(), source.insert(1), source.update(1, name="newer"))
    lab.ingest()
    lab.send("payments", source.truncate(), source.insert(2))
    lab.ingest()

    check(lab, {"payments": source})
    folded: dict[int, Any] = {}
    for row in sorted(lab.rows("payments"), key=lambda row: row["_offset"]):
        if row["_op"] == "t":
            folded.clear()
        else:
            folded[row["id"]] = {name: row[name] for name in source.columns}
    assert latest(folded.values()) == latest(source.rows.values())
    assert lab.dead() == []


def test_where_nobody_knows_the_order_a_truncate_is_a_dead_letter_and_the_rows_stay(lab: Lab) -> None:
    source = Source("orders")
    lab.send("orders", source.insert(1), source.insert(2))
    lab.ingest()
    lab.grow("orders", 2)
    lab.send("orders", (None, source.value("t", None, None)), partition=0)
    lab.send("orders", source.insert(3), partition=1)
    lab.ingest()

    check(lab, {"orders": source})
    (letter,) = lab.dead()
    assert letter.headers["isotherm.reason"] == b"truncate_unordered"
    assert letter.headers["isotherm.error"] == (
        b"truncate_unordered:the topic has 2 partitions, between which there is no order"
    )
