"""A write that loses a race with another writer of the table is computed again, on what is there then."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from isotherm.contract.events import Intent
from isotherm.contract.summary import INGEST_TOKEN
from isotherm_ingest.streams import Stream
from isotherm_ingest.tables.portion import Done, Ready
from isotherm_ingest.tables.sessions import Sessions
from isotherm_ingest.tables.tools import Tools
from isotherm_ingest.tables.upsert import Located, Upsert
from isotherm_ingest.tables.writer import TableWriter, Written
from support.changes import COLUMNS, Source, latest, moment
from support.gate import Gate
from support.ingest_lab import Lab

pytestmark = [pytest.mark.spark, pytest.mark.stack]


class LocatesAtTheGate(Upsert):
    """Has found the rows of the keys, and waits."""

    gate: Gate

    def locate(self) -> Located:
        located = super().locate()
        self.gate.function()(None)
        return located


class AfterLocating(TableWriter):
    """Holds its first upsert open, once it knows where the rows are."""

    def __init__(self, name: str, stream: Stream, sessions: Sessions, tools: Tools) -> None:
        super().__init__(name, stream, sessions, tools, LocatesAtTheGate)


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
    AtTheGate.gate = LocatesAtTheGate.gate = gate
    yield gate
    gate.open()
    gate.close()


@pytest.mark.parametrize(("table", "held"), [("orders", AfterLocating), ("payments", AtTheGate)])
def test_a_write_that_loses_a_race_is_computed_again(
    lab: Lab, gate: Gate, table: str, held: type[TableWriter]
) -> None:
    """Somebody else inserts a row while the write is open: with a key of ours in the mirror, any row in the changelog."""
    source = Source(table)
    lab.send(table, source.insert(1), source.insert(2))
    lab.ingest()
    lab.again(held)
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


def test_a_rewrite_while_a_batch_is_read_costs_an_upsert_nothing(lab: Lab, gate: Gate) -> None:
    """The file of its row is replaced after the table was looked at, and before any intent could name it."""
    source = Source("orders")
    for number in (1, 2):
        lab.send("orders", source.insert(number))
        lab.ingest()
    lab.again(AtTheGate)
    lab.send("orders", source.update(1, name="newer"))
    with ThreadPoolExecutor(1) as pool:
        write = pool.submit(lab.ingest)
        gate.wait(write)
        options = "options => map('rewrite-all', 'true')"
        lab.spark.sql(f"CALL lake.system.rewrite_data_files(table => '{lab.name}.orders', {options})")
        gate.open()
        write.result(timeout=100)

    rows = [{name: row[name] for name in source.columns} for row in lab.rows("orders")]
    assert latest(rows) == latest(source.rows.values())
    assert ["replace", "overwrite"] == [one.summary.operation.value for one in lab.snapshots("orders")[-2:]]
    (recomputed,) = lab.metrics.recomputed.labels(f"{lab.name}.orders").collect()[0].samples[:1]
    assert 0 == recomputed.value


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
