"""A property that librdkafka does not take is refused in one line that names it, the file, and no value."""

import os
import subprocess
import sys

import pytest
import yaml
from confluent_kafka import Producer

from isotherm.runtime.kafka_client import PropertyError, kafka_client
from support.worked import worked_in

SECRET = "hunter2"  # noqa: S105 (it must not be shown)
UNKNOWN = {"acks_": SECRET}, 'No such configuration property: "acks_"'
NO_VALUE = {"compression.type": SECRET}, 'Invalid value for configuration property "compression.codec"'
OF_A_CONSUMER = (
    {"session.timeout.ms": 3_600_000},
    "Failed to create consumer: `max.poll.interval.ms`must be >= `session.timeout.ms`",
)


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    return worked_in(tmp_path_factory.mktemp("worked"))


def asked(module, *words):
    return subprocess.run(
        [sys.executable, "-m", module, *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
        env={**os.environ, "NO_COLOR": "1"},
    )


@pytest.mark.parametrize(
    ("words", "bad"),
    [
        (["audit", "shop.orders"], UNKNOWN),
        (["audit", "shop.orders"], OF_A_CONSUMER),
        (["pause", "shop.orders"], NO_VALUE),
        (["resume"], UNKNOWN),
        (["run"], UNKNOWN),
    ],
    ids=lambda one: one[0] if isinstance(one, list) else "",
)
def test_a_command_refuses_it(lab, words, bad):
    properties, why = bad
    config = yaml.safe_load((lab.root / "isotherm.yaml").read_text())
    config["kafka"]["properties"] |= properties
    path = lab.root / "bad.yaml"
    path.write_text(yaml.safe_dump({**config, "http": {"port": 0}}))
    result = asked("isotherm.cli", *words, "--config", path)

    assert result.returncode == 78, result.stderr
    assert "Traceback" not in result.stderr
    said = result.stderr.splitlines()[-1]
    assert str(path) in said
    assert f"kafka.properties: {why}" in said.replace('\\"', '"')
    assert SECRET not in result.stderr


def test_ingest_refuses_it(tmp_path):
    properties, why = NO_VALUE
    path = tmp_path / "streams.yaml"
    streams = {
        "pipeline": "orders",
        "catalog": {"name": "lake", "properties": {"type": "sql", "uri": "sqlite://"}},
        "kafka": {"properties": {"bootstrap.servers": "127.0.0.1:1", **properties}},
        "http": {"port": 0},
        "streams": [{"topics": "shop.orders", "table": "shop.orders", "mode": "changelog"}],
    }
    path.write_text(yaml.safe_dump(streams))
    result = asked("isotherm_ingest.cli", "run", path)

    assert result.returncode == 78, result.stderr
    assert "Traceback" not in result.stderr
    assert result.stderr.splitlines()[-1] == f"{path}: kafka.properties: {why}"


def test_a_value_that_is_refused_is_not_repeated():
    with pytest.raises(PropertyError) as refused:
        kafka_client(Producer, NO_VALUE[0])

    assert str(refused.value) == f"kafka.properties: {NO_VALUE[1]}"
