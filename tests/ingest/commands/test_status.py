"""`isotherm-ingest status` as it is called, beside a driver that writes and does not notice."""

import json
import random
import subprocess
import sys
from typing import Any

import pytest
from typer.testing import CliRunner

from isotherm_ingest.cli import app
from isotherm_ingest.commands.dead_letters import newest_letters
from support.changes import Source
from support.ingest_lab import Lab
from support.trading import trade


def asked(lab: Lab, folder: Any, *more: str) -> Any:
    file = folder / "streams.yaml"
    file.write_text(lab.text)
    return CliRunner().invoke(app, ["status", str(file), *more], env={"COLUMNS": "80"})


@pytest.mark.spark
@pytest.mark.stack
def test_status_counts_what_waits_beside_a_driver_that_it_takes_nothing_from(lab: Lab, tmp_path: Any) -> None:
    dice = random.Random(3)
    sources = {table: Source(table) for table in ("orders", "payments")}
    for source in sources.values():
        trade(lab, source, dice, 20, 0)
    lab.send("payments", (b"{}", b"no change"), (b"{}", b"no change either"))
    lab.ingest()
    lab.announce()
    fine = json.loads(asked(lab, tmp_path, "-o", "json").stdout)
    orders, payments = (
        next(one for one in fine["tables"] if one["table"] == f"{lab.name}.{table}") for table in sources
    )

    assert (orders["state"], orders["mode"], orders["waiting"]) == (
        "fine",
        "mirror",
        {lab.topic("orders"): 0},
    )
    assert orders["committed_ms"] == lab.snapshots("orders")[-1].timestamp_ms
    assert (payments["dead_letters"], payments["mode"]) == ({"no_schema": 2}, "changelog")
    assert sum(payments["dead_letters"].values()) == len(lab.dead())
    assert [one["table"] for one in fine["tables"]] == [f"{lab.name}.payments", f"{lab.name}.orders"]

    lab.send("orders", *[sources["orders"].insert(1000 + number) for number in range(7)])
    lab.send("customers", *[Source("customers").insert(number) for number in range(3)])
    behind = asked(lab, tmp_path)
    lines = behind.stdout.splitlines()

    assert behind.exit_code == 1, "dead letters of today"
    assert max(map(len, lines)) <= 80
    assert lines[0].split() == ["table", "mode", "waiting", "committed", "used", "letters", "state"]
    assert any(line.split()[:3] == [f"{lab.name}.orders", "mirror", "7"] for line in lines)
    assert f"{lab.topic('customers')} has no table yet: 3 wait" in lines
    assert lines[-1] == "2 tables: 1 needs a person; 10 messages wait, 2 dead letters"

    lab.ingest()  # raises where its marks were taken over
    assert {row["id"] for row in lab.rows("orders")} == sources["orders"].rows.keys()

    lab.spark.sql(
        f"CALL lake.system.rollback_to_snapshot('{lab.name}.orders', {lab.snapshots('orders')[0].snapshot_id})"
    )
    lost = json.loads(asked(lab, tmp_path, "-o", "json").stdout)
    assert (lost["tables"][0]["table"], lost["tables"][0]["state"]) == (f"{lab.name}.orders", "halted")
    assert "table_rolled_back" in lost["tables"][0]["holes"][0]


@pytest.mark.stack
def test_a_pipeline_that_never_ran_has_topics_without_tables_and_nothing_is_made(
    kafka: Any, tmp_path: Any
) -> None:
    from confluent_kafka import Producer
    from confluent_kafka.admin import AdminClient

    kafka.create_topic("never.orders", 2)
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    for number in range(5):
        producer.produce("never.orders", b"{}", partition=number % 2)
    producer.flush()
    catalog = f"{{type: sql, uri: 'sqlite:///{tmp_path}/c.db', warehouse: 'file://{tmp_path}/w'}}"
    file = tmp_path / "streams.yaml"
    file.write_text(f"""
pipeline: never
catalog: {{name: lake, properties: {catalog}}}
kafka: {{properties: {{bootstrap.servers: "{kafka.bootstrap_servers}"}}, control_topic: never.c, dead_letter_topic: never.d}}
streams: [{{topics: 'never\\.[a-z]{{2,}}', table: "never.{{table}}"}}]
""")
    found = CliRunner().invoke(app, ["status", str(file)])

    assert found.stdout.splitlines() == [
        "never.orders has no table yet: 5 wait", "0 tables: all is well; 5 messages wait, 0 dead letters"
    ]  # fmt: skip
    assert found.exit_code == 0
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    assert not {"never.c", "never.d", "never.c.announced"} & admin.list_topics(timeout=30).topics.keys()
    groups = admin.list_consumer_groups().result(30).valid
    assert "isotherm-ingest-never" not in {one.group_id for one in groups}


@pytest.mark.stack
def test_of_many_dead_letters_the_newest_are_looked_at(kafka: Any) -> None:
    from confluent_kafka import Producer

    kafka.create_topic("many.dead", 2)
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    for number in range(40):
        headers = {
            "isotherm.pipeline": "mine" if number % 2 else "another", "isotherm.topic": "t", "isotherm.partition": "0",
            "isotherm.offset": str(number), "isotherm.timestamp": "2024", "isotherm.reason": "no_row",
        }  # fmt: skip
        producer.produce("many.dead", b"", partition=number // 2 % 2, headers=headers)
        if number > 37:
            producer.produce("many.dead", b"", partition=0, headers=headers)
            producer.produce("many.dead", b"somebody else's", partition=0)
    producer.flush()
    properties = {"bootstrap.servers": kafka.bootstrap_servers}
    some = newest_letters(properties, "many.dead", "mine", most=20)
    every = newest_letters(properties, "many.dead", "mine")
    few = newest_letters(properties, "many.dead", "mine", most_bytes=1)

    assert (every.looked_at, every.there) == (44, 44)
    assert sorted(one.offset for one in every.letters) == list(range(1, 40, 2)), (
        "one that was sent twice is one"
    )
    assert (some.looked_at, some.there) == (20, 44)
    assert {one.offset for one in some.letters} < {one.offset for one in every.letters}
    assert min(one.offset for one in some.letters) > 19
    assert few.looked_at == 1
    assert newest_letters(properties, "not.there", "mine").there == 0


def test_a_broker_that_does_not_answer_is_one_line(tmp_path: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr("isotherm_ingest.kafka.TIMEOUT_S", 0.2)
    file = tmp_path / "streams.yaml"
    kafka = "{properties: {bootstrap.servers: '127.0.0.1:1', retries: 1}}"
    file.write_text(
        f"pipeline: p\ncatalog: {{name: lake}}\nkafka: {kafka}\nstreams: [{{topics: t, table: n.t, mode: changelog}}]\n"
    )
    found = CliRunner().invoke(app, ["status", str(file)])

    assert found.exit_code == 1
    assert found.stderr.count("\n") == 1, found.stderr
    file.write_text(file.read_text().replace("retries", "no.such"))
    assert CliRunner().invoke(app, ["status", str(file)]).exit_code == 78


def test_status_needs_no_spark() -> None:
    """To import it takes as long as all else, and a machine that only looks may not have it."""
    code = "import sys, isotherm_ingest.commands.status_text; print({'pyspark', 'py4j'} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)

    assert done.stdout == "set()\n"
