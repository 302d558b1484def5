"""`isotherm-ingest validate --against`: what it says comes true once a driver runs, and it writes nothing itself."""

from collections.abc import Iterator
from typing import Any

import pytest
from typer.testing import CliRunner

from isotherm_ingest.cli import app
from support.avro import ENVELOPE, KEY, VALUE, change, confluent, envelope_of, written
from support.changes import COLUMNS, Source
from support.fake_registry import FakeRegistry
from support.ingest_lab import Lab

pytestmark = [pytest.mark.spark, pytest.mark.stack]

STREAMS = r"""
  - {topics: "NS\\.public\\.(orders|customers)", table: "NS.{table}"}
  - {topics: "NS\\.public\\.payments", table: "NS.{table}", mode: changelog}
  - {topics: "NS\\.old\\..*", table: "NS.{table}"}
"""
AVRO = r"""
  - {topics: "NS\\.public\\.(orders|lines|odd)", table: "NS.{table}", format: avro}
  - {topics: "NS\\.public\\.plain", table: "NS.{table}"}
registry: {url: "URL"}
"""


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    made = FakeRegistry()
    yield made
    made.close()


def asked(lab: Lab, folder: Any, where: str) -> Any:
    file = folder / "streams.yaml"
    file.write_text(lab.text)
    return CliRunner().invoke(app, ["validate", str(file), "--against", where], env={"COLUMNS": "80"})


def of_topic(found: Any, topic: str) -> list[str]:
    """The lines below a topic."""
    lines = found.stdout.splitlines()
    start = next(place for place, line in enumerate(lines) if line.startswith(f"{topic} "))
    end = next(place for place in range(start + 1, len(lines)) if not lines[place].startswith(" "))
    return [line.strip() for line in lines[start + 1 : end]]


def columns_of(lab: Lab, table: str) -> dict[str, str]:
    now = lab.lake.load(f"{lab.name}.{table}")
    return {} if now is None else now.columns


def test_what_is_said_of_topics_is_what_a_driver_does_then(
    kafka: Any, spark: Any, lake_folder: Any, tmp_path: Any
) -> None:
    lab = Lab(kafka, spark, lake_folder, STREAMS)
    lab.make_topics("orders", "payments", "other")
    lab.kafka.create_topic(lab.topic("customers"), 2, {"cleanup.policy": "compact"})
    orders, payments = Source("orders"), Source("payments")
    lab.send("orders", *[orders.insert(number) for number in range(3)])
    lab.send("payments", *[payments.insert(number) for number in range(3)])
    fine = asked(lab, tmp_path, "topics")

    assert (fine.exit_code, lab.outbox.names) == (0, frozenset())
    assert f"-> {lab.name}.orders (mirror, key id), which would be made" in of_topic(
        fine, lab.topic("orders")
    )
    assert of_topic(fine, lab.topic("customers"))[0] == "holds no message"
    assert "is compacted" in of_topic(fine, lab.topic("customers"))[1]
    assert f"no stream takes topic {lab.topic('other')}" in fine.stdout
    assert f"stream {lab.name}\\.old\\..* takes no topic that is there" in fine.stdout
    assert columns_of(lab, "orders") == {}
    assert lab.dead() == lab.control() == []
    lab.ingest()
    told = of_topic(fine, lab.topic("orders"))[-1].removeprefix("with ")
    assert told == ", ".join(f"{name} {kind}" for name, kind in columns_of(lab, "orders").items())

    wider = Source("orders", {**COLUMNS, "city": {"type": "string", "optional": True}})
    other = Source("payments", {**COLUMNS, "paid": {"type": "string", "optional": True}})
    lab.send("orders", *[wider.insert(10 + number, city="Ulm") for number in range(2)])
    lab.send("payments", other.insert(11, paid="yes"), other.insert(12, paid="no"), (b"{}", b"no change"))
    before = [len(lab.snapshots(table)) for table in ("orders", "payments")]
    found = asked(lab, tmp_path, "topics")

    assert found.exit_code == 1
    assert of_topic(found, lab.topic("orders"))[1:] == [
        f"-> {lab.name}.orders (mirror, key id)", "ADD COLUMNS (`city` STRING)"
    ]  # fmt: skip
    refused = of_topic(found, lab.topic("payments"))[2:]
    assert refused[0] == "dead letters: column paid is BOOLEAN in the table and STRING in the message"
    assert refused[1].startswith("dead letters: 1 message: no_schema")
    assert before == [len(lab.snapshots(table)) for table in ("orders", "payments")]
    assert "city" not in columns_of(lab, "orders")
    lab.ingest()  # raises where its marks were taken over
    assert columns_of(lab, "orders")["city"] == "STRING"
    assert [one.headers["isotherm.reason"] for one in lab.dead()].count(b"incompatible_schema") == 2
    assert len(lab.dead()) == 3
    lab.close()


def test_the_registry_s_schemas_are_held_against_the_tables(
    kafka: Any, spark: Any, lake_folder: Any, tmp_path: Any, registry: FakeRegistry
) -> None:
    lab = Lab(kafka, spark, lake_folder, AVRO.replace("URL", registry.url))
    lab.make_topics("orders", "lines", "odd", "plain")
    value = registry.register(f"{lab.topic('orders')}-value", ENVELOPE, "FULL_TRANSITIVE")
    key = registry.register(f"{lab.topic('orders')}-key", KEY, "FULL_TRANSITIVE")
    message = confluent(
        value,
        written(ENVELOPE, change(after={"id": 1, **dict.fromkeys(("name", "amount", "at", "tags", "paid"))})),
    )
    lab.send("orders", (confluent(key, written(KEY, {"id": 1})), message))
    lab.ingest()
    fits = asked(lab, tmp_path, "registry")

    assert fits.exit_code == 0, fits.output
    assert of_topic(fits, lab.topic("orders"))[1:] == [
        f"-> {lab.name}.orders (mirror, key id)",
        "fits as it is",
    ]
    assert of_topic(fits, lab.topic("lines")) == [f"the registry has no subject {lab.topic('lines')}-value"]
    assert "see --against topics" in of_topic(fits, lab.topic("plain"))[0]

    more = envelope_of([*VALUE, {"name": "city", "type": ["null", "string"]}])
    registry.register(f"{lab.topic('orders')}-value", more, "BACKWARD")
    registry.register(f"{lab.topic('odd')}-value", "{}", schemaType="PROTOBUF")
    found = asked(lab, tmp_path, "registry")
    orders = of_topic(found, lab.topic("orders"))

    assert found.exit_code == 1, "of Protobuf nothing is read"
    assert "version 2" in orders[0]
    assert orders[2:] == [
        "ADD COLUMNS (`city` STRING)",
        f"{lab.topic('orders')}-value is BACKWARD, not FULL_TRANSITIVE",
    ]
    assert "no Avro, but PROTOBUF" in of_topic(found, lab.topic("odd"))[1]
    by_topics = asked(lab, tmp_path, "topics")
    assert of_topic(by_topics, lab.topic("orders"))[1:] == [
        f"-> {lab.name}.orders (mirror, key id)",
        "fits as it is",
    ]

    registry.trouble = 500, b""
    away = asked(lab, tmp_path, "registry")
    assert away.exit_code == 1
    assert "nobody can say: the registry answers 500" in of_topic(away, lab.topic("orders"))[0]
    lab.close()
