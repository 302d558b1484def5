"""Iceberg's sink on a real Connect worker: rows from a Kafka topic into a table of a lab's catalog."""

import json
from pathlib import Path

import pyspark
from confluent_kafka import Consumer, Producer

from isotherm.demo.stack import Kafka, jar_paths
from isotherm.demo.stack.connect import Connect
from support.lab import Lab

PLAIN_JSON = {"value.converter.schemas.enable": False}
ENDS = (b"CommitToTable", b"CommitComplete")


def sink_jars(stamps: Path) -> list[Path]:
    """The locked list, and Hadoop's two jars as Spark's wheel has them."""
    hadoop = (Path(pyspark.__file__).parent / "jars").glob("hadoop-client-*.jar")
    return [*jar_paths("iceberg-sink", stamps), *sorted(hadoop)]


class Sink:
    """A worker with one sink that writes `shop.orders`."""

    def __init__(self, lab: Lab, kafka: Kafka, rows_topic: str, control_topic: str) -> None:
        self.kafka, self.rows_topic, self.control_topic = kafka, rows_topic, control_topic
        kafka.create_topic(rows_topic)
        kafka.create_topic(control_topic)
        folder = lab.root / "connect"
        self.connect = Connect(
            folder,
            kafka.bootstrap_servers,
            worker=PLAIN_JSON | {"key.converter": "org.apache.kafka.connect.storage.StringConverter"},
            plugins={"iceberg": sink_jars(folder)},
        )
        self._config = {
            "connector.class": "org.apache.iceberg.connect.IcebergSinkConnector",
            "topics": rows_topic,
            "iceberg.tables": "shop.orders",
            "iceberg.catalog": "lake",
            "iceberg.catalog.type": "jdbc",
            "iceberg.catalog.uri": "jdbc:sqlite:" + lab.properties["uri"].removeprefix("sqlite:///"),
            "iceberg.catalog.warehouse": lab.properties["warehouse"],
            "iceberg.catalog.jdbc.schema-version": "V1",
            "iceberg.control.topic": control_topic,
            "iceberg.control.commit.interval-ms": 500,
            "iceberg.control.commit.timeout-ms": 5000,
        }
        self._producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
        self._control = Consumer(
            {
                "bootstrap.servers": kafka.bootstrap_servers,
                "group.id": f"look-{control_topic}",
                "auto.offset.reset": "earliest",
            }
        )
        self._control.subscribe([control_topic])

    def start(self) -> None:
        self.connect.start()
        self.connect.start_connector("sink", self._config)

    def stop(self) -> None:
        self._control.close()
        self.connect.stop()

    def write(self, rows: list[dict]) -> list[bytes]:
        """Rows into the topic; gives the sink's control messages up to the end of the commit that has them."""
        for row in rows:
            self._producer.produce(self.rows_topic, json.dumps(row))
        assert self._producer.flush(30) == 0
        found: list[bytes] = []
        for _ in range(60):
            came = self._control.consume(1, 1.0)
            found.extend(message.value() for message in came if message.error() is None)
            kinds = [end for end in ENDS if any(end in value for value in found)]
            if kinds == list(ENDS) and ENDS[1] in found[-1]:
                return found
        raise AssertionError(f"no commit after {len(found)} messages: {self.connect.process.log_tail()}")
