"""`isotherm reader` on a real broker: what it says, a daemon knows, and its expiry heeds."""

import uuid

import pytest
import yaml
from typer.testing import CliRunner

from isotherm.cli import app
from isotherm.core import observations as seen
from isotherm.kafka.broker import ensure_topic
from isotherm.kafka.keyed_topic import TOPIC, KafkaKeyedTopic
from support.deleting import turn
from support.lab import Lab, of

pytestmark = pytest.mark.stack

POLICY = """
tables: "*"
compact: {enabled: false}
expire: {keep_for: 10m, keep_last: 5, at_once: 2, every: 0s}
"""


@pytest.fixture
def lab(tmp_path):
    return Lab(tmp_path, policy=POLICY)


@pytest.fixture
def topics(kafka):
    return {"bootstrap.servers": kafka.bootstrap_servers}, f"control-{uuid.uuid4()}"


@pytest.fixture
def isotherm(lab, topics):
    properties, control = topics
    config = lab.root / "isotherm.yaml"
    config.write_text(
        yaml.safe_dump(
            {
                "catalog": {"properties": lab.properties},
                "kafka": {"properties": properties, "control_topic": control},
            }
        )
    )
    return lambda *words: CliRunner().invoke(app, ["reader", *map(str, words), "--config", str(config)])


def history(table):
    return [one.snapshot_id for one in table.refresh().snapshots()]


def test_what_is_said_holds_until_it_is_taken_back(lab, topics, isotherm):
    properties, control = topics
    table = lab.create()
    for hour in range(10):
        lab.append(table, hour)
    every = history(table)
    said = isotherm("shop.orders", "scoring", "--at", every[0])
    assert (said.exit_code, str(every[0]) in said.output) == (0, True), said.output
    ensure_topic(properties, f"{control}.readers", config=TOPIC)
    service = lab.service()
    service.readers.topic = KafkaKeyedTopic(properties, f"{control}.readers")
    service.start()
    lab.ahead_ms += 30 * 60_000
    turn(service, 6)
    assert history(table) == every

    assert isotherm("shop.orders", "scoring").exit_code == 0  # it has read all that there is
    turn(service, 6)
    assert history(table) == every[5:]

    done = isotherm("shop.orders", "scoring", "--done")
    turn(service, 2)
    assert (done.exit_code, service.ledger.position_keys()) == (0, set())
    assert not of(lab, seen.ReaderRejected)
    service.readers.topic.close()
    service.stop()


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("shop.orders", "scoring"), "shop.orders has no snapshot yet"),
        (("shop.orders", "scoring", "--at", 17), "shop.orders has no snapshot 17"),
        (("shop.orders", "scoring", "--at", 17, "--done"), "exclude each other"),
        (("shop.orders", "scoring", "--checkpoint", "/nowhere"), "has no commits"),
        (("shop.order", "scoring"), "shop.order"),
        (("shop.orders", "a/b", "--done"), "a/b"),
    ],
)
def test_what_is_wrong_is_said_in_words(lab, isotherm, words, why):
    lab.create()

    said = isotherm(*words)

    assert said.exit_code == 2
    assert why in " ".join(said.output.split())
    assert "Traceback" not in said.output
