"""Tables that are queries over others, on real Spark and Kafka, judged by plain Python."""

import json
import random
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from structlog.testing import capture_logs

from isotherm.runtime import clock
from isotherm_ingest.queries.queries import Queries
from support.ingest_lab import Lab

pytestmark = [pytest.mark.spark, pytest.mark.stack]
START = datetime(2026, 1, 1, tzinfo=UTC)
STREAMS = r"""
  - topics: NS\.public\.readings
    table: NS.readings
    mode: changelog
    format: json
    envelope: none
    columns: {sensor: STRING, at: TIMESTAMP(ms), celsius: DOUBLE}
    partition_by: [days(at)]
queries:
  - table: NS.minutes
    key: [minute, sensor]
    partition_by: [days(minute)]
    changes:
      NS.readings: SELECT date_trunc('MINUTE', at) AS minute, sensor FROM changes
    sql: |
      SELECT date_trunc('MINUTE', at) AS minute, sensor, count(*) AS readings, max(celsius) AS hottest
      FROM NS.readings
      WHERE at >= {first:minute} AND at < {last:minute} + INTERVAL 1 MINUTE
      GROUP BY 1, 2 HAVING max(celsius) > -100
"""


@pytest.fixture
def lab(kafka: Any, spark: Any, lake_folder: Any) -> Iterator[Lab]:
    lab = Lab(kafka, spark, lake_folder, STREAMS)
    lab.make_topics("readings", partitions=2)
    yield lab
    lab.close()


def queries_of(lab: Lab) -> Queries:
    return Queries(lab.config, lab.spark, lab.tools, lab.outbox)


def reading(sensor: str, minutes: float, celsius: float) -> dict[str, Any]:
    return {"sensor": sensor, "at": int((START + timedelta(minutes=minutes)).timestamp() * 1000), "celsius": celsius}


def send(lab: Lab, *readings: dict[str, Any]) -> None:
    for one in readings:
        lab.send("readings", (one["sensor"].encode(), json.dumps(one).encode()))


def by_minute(readings: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """What the query gives, in plain Python."""
    found = defaultdict(list)
    for one in readings:
        minute = datetime.fromtimestamp(one["at"] // 60_000 * 60, UTC)
        found[minute, one["sensor"]].append(one["celsius"])
    return sorted((*key, len(all_of), max(all_of)) for key, all_of in found.items() if max(all_of) > -100)


def minutes(lab: Lab) -> list[tuple[Any, ...]]:
    rows = lab.rows("minutes")
    return sorted((row["minute"].astimezone(UTC), row["sensor"], row["readings"], row["hottest"]) for row in rows)


@pytest.mark.parametrize("seed", range(2))
def test_windows_are_those_of_plain_python_whatever_comes_late_and_whoever_begins_again(lab: Lab, seed: int) -> None:
    choose = random.Random(seed)
    sent: list[dict[str, Any]] = []
    queries = queries_of(lab)
    for turn in range(6):
        new = [
            reading(choose.choice("abc"), choose.uniform(0, 5 + turn * 3), choose.choice([-200.0, 1.0, 2.5, 30.0]))
            for _ in range(choose.randrange(1, 25))
        ]
        sent += new
        send(lab, *new)
        lab.ingest()
        if choose.random() < 0.3:
            continue  # two batches at once
        if choose.random() < 0.4:
            queries = queries_of(lab)
        queries.turn(clock.monotonic_s() + 1_000 * turn)
        assert minutes(lab) == by_minute(sent)
    queries.turn(clock.monotonic_s() + 100_000)
    assert minutes(lab) == by_minute(sent)
    assert len(lab.snapshots("minutes")) <= 7
