"""Streams of JSON without a schema, on a broker and Spark: what stands in the tables, by plain Python, whatever is repeated."""

import base64
import json
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from isotherm.contract.events import CommitEvent
from support.changes import Source, latest
from support.declared import event
from support.ingest_lab import Lab

pytestmark = [pytest.mark.spark, pytest.mark.stack]

STREAMS = r"""
  - topics: "NS\\.public\\.readings"
    table: NS.readings
    mode: changelog
    format: json
    envelope: none
    others: text
    partition_by: ["days(at)"]
    columns: {sensor: BIGINT NOT NULL, at: TIMESTAMP(ms), value: "DECIMAL(30,20)", tags: ARRAY<STRING>}
  - topics: "NS\\.public\\.devices"
    table: NS.devices
    format: json
    envelope: none
    key: [device]
    columns: {device: STRING, seen: TIMESTAMP, owner: STRING}
  - topics: "NS\\.public\\.orders"
    table: "NS.{table}"
    format: json
    columns: {id: BIGINT, name: STRING, amount: "DECIMAL(10,2)", at: TIMESTAMP, tags: ARRAY<STRING>, paid: BOOLEAN}
  - {topics: "NS\\.public\\.customers", table: "NS.{table}"}
"""
START = datetime(2024, 1, 1, tzinfo=UTC)


@pytest.fixture
def lab(kafka: Any, spark: Any, lake_folder: Any) -> Iterator[Lab]:
    lab = Lab(kafka, spark, lake_folder, STREAMS)
    lab.make_topics("readings", "devices", "orders", "customers")
    yield lab
    lab.close()


def reading(number: int, **more: Any) -> tuple[bytes | None, dict[str, Any]]:
    """A message of a sensor, and its row."""
    at = START + timedelta(hours=number)
    value = Decimal(number) / 7
    value = value.quantize(Decimal("1e-20"))
    head = json.dumps({"sensor": number % 3, "at": int(at.timestamp() * 1000), "tags": ["a", None], **more})
    row = {"sensor": number % 3, "at": at, "value": value, "tags": ["a", None]}
    row["_others"] = json.dumps(more, separators=(",", ":")) if more else None
    return head.encode()[:-1] + b', "value": %s}' % str(value).encode(), row


def told(row: dict[str, Any]) -> tuple[Any, ...]:
    return (row["sensor"], row["at"].astimezone(UTC), row["value"], tuple(row["tags"]), row["_others"])


def bare(pair: tuple[bytes, bytes]) -> tuple[bytes, bytes]:
    """A change as Connect writes it with `schemas.enable=false`, with numbers as text."""
    key, value = (json.loads(one)["payload"] for one in pair)
    for image in (value["before"], value["after"]):
        if image is not None:
            unscaled = int.from_bytes(base64.b64decode(image["amount"]), "big", signed=True)
            image["amount"] = str(Decimal(unscaled).scaleb(-2))
    return json.dumps(key).encode(), json.dumps(value).encode()


def test_events_without_a_schema_are_in_a_changelog_once_and_what_is_none_is_a_dead_letter(lab: Lab) -> None:
    made = [reading(number, **({"more": number} if number % 4 == 0 else {})) for number in range(60)]
    poison = [b"[]", b"\xff", b'{"sensor":null}', b'{"sensor":1.5}', b'{"sensor":1,"at":"soon"}']
    for some in (made[:20], made[20:40], made[40:]):
        lab.send("readings", *((None, value) for value, _ in some), (b"k", None))
        lab.send("readings", *((b"any key", one) for one in poison))
        lab.ingest()
        lab.close()
        lab.lose_marks()
        lab.again()
        lab.ingest()

    assert sorted(map(told, lab.rows("readings"))) == sorted(told(row) for _, row in made)
    assert {row["_op"] for row in lab.rows("readings")} == {"c"}
    errors = [letter.headers["isotherm.error"].partition(b":")[0] for letter in lab.dead()]
    assert set(errors) == {b"undecodable", b"not_utf8", b"null_value", b"undecodable_value"}
    assert {letter.value for letter in lab.dead()} == set(poison)
    assert {letter.key for letter in lab.dead()} == {b"any key"}
    lab.announce()
    assert all(isinstance(one, CommitEvent) and one.valid_through_ms for one in lab.events("readings"))


def test_a_mirror_of_events_has_the_newest_of_each_key(lab: Lab) -> None:
    dice = random.Random(5)
    newest: dict[str, dict[str, Any]] = {}
    for lap in range(3):
        messages = []
        for number in range(40):
            seen = START + timedelta(minutes=40 * lap + number)
            row = {"device": f"d{dice.randrange(12)}", "seen": seen.isoformat(), "owner": None}
            if dice.random() < 0.5:
                row["owner"] = f"o{number}"
            newest[str(row["device"])] = {**row, "seen": seen}
            messages.append((None, json.dumps({name: one for name, one in row.items() if one}).encode()))
        lab.send("devices", *messages, (b"d1", None))
        lab.ingest()

        assert latest(lab.rows("devices")) == latest(newest.values())
    assert lab.dead() == []


def test_changes_without_a_schema_become_the_mirror_that_those_with_one_become(lab: Lab) -> None:
    dice = random.Random(9)
    bare_source, source = Source("orders"), Source("customers")
    for lap in range(3):
        for each, turn in ((bare_source, bare), (source, lambda pair: pair)):
            messages: list[Any] = []
            for number in range(30):
                throw = dice.random()
                if throw < 0.5 or not each.rows:
                    messages.append(turn(each.insert(max(each.rows, default=0) + 1, lap + number / 30)))
                elif throw < 0.8:
                    messages.append(turn(each.update(dice.choice(list(each.rows)), name=f"new{number}")))
                else:
                    key, value = turn(each.delete(dice.choice(list(each.rows))))
                    messages += [(key, value), (key, None)]
            lab.send(each.table, *messages)
        lab.ingest()

        assert latest(lab.rows("orders")) == latest(bare_source.rows.values())
        assert latest(lab.rows("customers")) == latest(source.rows.values())
    truncate = json.dumps(json.loads(bare_source.truncate()[1])["payload"]).encode()
    lab.send("orders", (None, truncate), bare(bare_source.insert(7)))
    lab.ingest()
    assert latest(lab.rows("orders")) == latest(bare_source.rows.values())
    assert lab.dead() == []
    lab.send("orders", (b"{}", json.dumps(event(op="m")).encode()))
    lab.ingest()
    assert [letter.headers["isotherm.reason"] for letter in lab.dead()] == [b"unsupported_op"]
