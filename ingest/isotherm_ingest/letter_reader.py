"""Reads the dead-letter topic, for the commands: nothing is committed, and no group is joined."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from confluent_kafka import Consumer, KafkaException

from isotherm.runtime.kafka_client import kafka_client
from isotherm_ingest.kafka import BrokerError


@contextmanager
def letter_reader(properties: Mapping[str, Any], topic: str) -> Iterator[Consumer]:
    """A consumer, until the end of the block.

    Raises:
        BrokerError: Kafka does not answer.
    """
    consumer = kafka_client(
        Consumer,
        {
            **properties,
            "log_level": 0,
            "group.id": f"{topic}.readers",  # never committed; the protocol wants a name
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
        },
    )
    try:
        yield consumer
    except KafkaException as err:
        raise BrokerError(f"topic {topic}: {err.args[0].str()}") from err
    finally:
        consumer.close()
