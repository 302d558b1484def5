"""Streams of Avro, on a broker, Spark and a registry: what stands in the tables, by plain Python, whatever goes wrong."""

import random
from collections.abc import Iterator
from typing import Any

import pytest

from support.avro import ENVELOPE, KEY, VALUE, change, confluent, envelope_of, written
from support.changes import Source, latest, moment
from support.fake_registry import FakeRegistry
from support.ingest_lab import Lab

pytestmark = [pytest.mark.spark, pytest.mark.stack]

STREAMS = r"""
  - {topics: "NS\\.public\\.orders", table: "NS.{table}", format: avro}
  - topics: "NS\\.public\\.readings"
    table: NS.readings
    mode: changelog
    format: avro
    envelope: none
    partition_by: ["days(at)"]
registry: {url: "URL"}
"""
READING = {
    "type": "record",
    "name": "Reading",
    "fields": [
        {"name": "sensor", "type": "string"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["on", "off"]}},
        {"name": "raw", "type": ["null", "bytes"]},
    ],
}


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    made = FakeRegistry()
    yield made
    made.close()


@pytest.fixture
def lab(kafka: Any, spark: Any, lake_folder: Any, registry: FakeRegistry) -> Iterator[Lab]:
    lab = Lab(kafka, spark, lake_folder, STREAMS.replace("URL", registry.url))
    lab.make_topics("orders", "readings")
    yield lab
    lab.close()


def wire(row: dict[str, Any] | None) -> dict[str, Any] | None:
    """A row as Debezium has it in Avro."""
    if row is None:
        return None
    whole = int(row["amount"].scaleb(2))
    amount = whole.to_bytes((whole.bit_length() + 8) // 8, "big", signed=True)
    return {**row, "amount": amount, "at": row["at"].isoformat()}


class AvroSource:
    """A source whose changes are Avro."""

    def __init__(self, value: int, key: int, schema: Any) -> None:
        self.rows: dict[int, dict[str, Any]] = {}
        self._plain = Source("orders")
        self.ids, self.schema = (value, key), schema

    def change(self, dice: random.Random, number: int, **more: Any) -> list[tuple[bytes, bytes | None]]:
        """One more change, with the tombstone behind a delete."""
        throw = dice.random()
        if throw < 0.5 or not self.rows:
            row_id = len(self._plain.log) + 1
            self._plain.insert(row_id, number / 20)
            self.rows[row_id] = {**self._plain.rows[row_id], **more}
            return [self._message(row_id, change("c", None, wire(self.rows[row_id])))]
        row_id = dice.choice(list(self.rows))
        before = self.rows[row_id]
        if throw < 0.8:
            self.rows[row_id] = {**before, "name": f"new{number}", "tags": None, **more}
            return [self._message(row_id, change("u", wire(before), wire(self.rows[row_id])))]
        del self.rows[row_id]
        key, value = self._message(row_id, change("d", None if throw > 0.9 else wire(before)))
        return [(key, value), (key, None)]

    def _message(self, row_id: int, told: dict[str, Any]) -> tuple[bytes, bytes]:
        value, key = self.ids
        return confluent(key, written(KEY, {"id": row_id})), confluent(value, written(self.schema, told))


def test_changes_in_avro_become_the_mirror_that_their_source_is(lab: Lab, registry: FakeRegistry) -> None:
    dice = random.Random(3)
    source = AvroSource(registry.add(ENVELOPE), registry.add(KEY), ENVELOPE)
    for lap in range(2):
        lab.send("orders", *(one for number in range(60) for one in source.change(dice, number)))
        lab.send("orders", (b"", confluent(1, b"cut off")), (b"", b"no id"))
        lab.ingest()
        assert latest(lab.rows("orders")) == latest(source.rows.values()), lap
    reasons = [letter.headers["isotherm.reason"] for letter in lab.dead()]
    assert sorted(reasons) == [b"no_schema", b"no_schema", b"undecodable", b"undecodable"]

    # A column more, with a schema that old messages do not have.
    later = envelope_of([*VALUE, {"name": "note", "type": ["null", "string"], "default": None}])
    source.ids, source.schema = (registry.add(later), source.ids[1]), later
    for row in source.rows.values():
        row["note"] = None
    lab.send(
        "orders", *(one for number in range(30) for one in source.change(dice, number, note=f"n{number}"))
    )
    lab.ingest()
    assert latest(lab.rows("orders")) == latest(source.rows.values())
    assert len(lab.dead()) == 4
    assert len(registry.asked) == 3  # of each id once

    lab.close()
    lab.lose_marks()
    lab.again()
    lab.ingest()
    assert latest(lab.rows("orders")) == latest(source.rows.values())

    source.rows.clear()
    truncate = confluent(source.ids[0], written(source.schema, change("t")))
    lab.send("orders", (None, truncate), *source.change(dice, 0, note="behind it"))
    lab.ingest()
    assert latest(lab.rows("orders")) == latest(source.rows.values())
    assert (len(lab.rows("orders")), len(lab.dead())) == (1, 4)


def test_events_in_avro_wait_for_a_registry_that_is_away_and_stop_no_other_topic(
    lab: Lab, registry: FakeRegistry
) -> None:
    number = registry.add(READING)
    rows = [
        {
            "sensor": f"s{one % 3}",
            "at": moment(one),
            "state": "off" if one % 2 else "on",
            "raw": bytes([one]) if one % 5 else None,
        }
        for one in range(200)
    ]
    registry.trouble = 500, b"{}"
    bodies = [written(READING, row) for row in rows]
    lab.send("readings", *((None, confluent(number, body)) for body in bodies[:100]))
    lab.ingest()
    assert registry.asked
    assert lab.snapshots("readings") == []
    assert lab.dead() == []

    registry.trouble = None
    lab.send(
        "readings",
        *((None, confluent(number, body)) for body in bodies[100:]),
        (None, confluent(number, bodies[0][:-1])),
    )
    lab.again()
    lab.ingest()

    told = [{name: row[name] for name in rows[0]} for row in lab.rows("readings")]
    for row in told:
        row["raw"] = None if row["raw"] is None else bytes(row["raw"])
    assert latest(told) == latest(rows)
    assert [letter.value for letter in lab.dead()] == [confluent(number, bodies[0][:-1])]


def test_an_id_that_nobody_knows_is_a_dead_letter_until_somebody_registers_it(
    lab: Lab, registry: FakeRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("isotherm_ingest.registry.UNKNOWN_FOR_S", 0.0)
    row = {"sensor": "s", "at": moment(1), "state": "on", "raw": None}
    known, unknown = registry.add(READING), 99
    values = [confluent(number, written(READING, row)) for number in (known, unknown, known)]
    lab.send("readings", *((None, value) for value in values))
    lab.ingest()

    assert [one["_offset"] for one in lab.rows("readings")] == [0, 2]
    assert [(one.value, one.headers["isotherm.reason"]) for one in lab.dead()] == [(values[1], b"no_schema")]
    registry.schemas[unknown] = registry.schemas[known]
    lab.send("readings", (None, values[1]))
    lab.ingest()
    assert sorted(one["_offset"] for one in lab.rows("readings")) == [0, 2, 3]
    assert len(lab.dead()) == 1
