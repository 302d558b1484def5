"""Ranges of Kafka partitions, read again for a table that was left out."""

import json
from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession

from isotherm_ingest.streams import BrokerConfig, spark_kafka
from isotherm_ingest.tables.offsets import Position


def read_range(
    spark: SparkSession, kafka: BrokerConfig, chunk: Mapping[Position, tuple[int, int]]
) -> DataFrame:
    """The raw messages of some ranges of offsets, from the first of each to before its end."""

    def as_json(which: int) -> str:
        by_topic: dict[str, dict[str, int]] = {}
        for (topic, partition), span in chunk.items():
            by_topic.setdefault(topic, {})[str(partition)] = span[which]
        return json.dumps(by_topic)

    assigned: dict[str, list[int]] = {}
    for topic, partition in chunk:
        assigned.setdefault(topic, []).append(partition)
    return (
        spark.read.format("kafka")
        .options(**spark_kafka(kafka))
        .option("assign", json.dumps(assigned))
        .option("startingOffsets", as_json(0))
        .option("endingOffsets", as_json(1))
        .option("includeHeaders", "true")
        .load()
    )
