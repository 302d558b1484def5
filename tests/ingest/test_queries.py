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
from isotherm.runtime.yaml_reader import parse_yaml
from isotherm_ingest.kafka import BrokerError
from isotherm_ingest.queries.queries import Queries
from isotherm_ingest.query_config import Emit, Query
from isotherm_ingest.streams import StreamsConfig
from isotherm_ingest.tables.upsert import Upsert
from support.changes import Source
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
  - topics: NS\.public\.orders
    table: NS.orders
    mode: changelog
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
    return Queries(lab.config, lab.spark, lab.tools, lab.outbox, lab.broker)


def reading(sensor: str, minutes: float, celsius: float) -> dict[str, Any]:
    return {
        "sensor": sensor,
        "at": int((START + timedelta(minutes=minutes)).timestamp() * 1000),
        "celsius": celsius,
    }


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
    return sorted(
        (row["minute"].astimezone(UTC), row["sensor"], row["readings"], row["hottest"]) for row in rows
    )


@pytest.mark.parametrize("seed", [0])
def test_windows_are_those_of_plain_python_whatever_comes_late_and_whoever_begins_again(
    lab: Lab, seed: int
) -> None:
    choose = random.Random(seed)
    sent: list[dict[str, Any]] = []
    queries = queries_of(lab)
    for turn in range(6):
        new = [
            reading(
                choose.choice("abc"), choose.uniform(0, 5 + turn * 3), choose.choice([-200.0, 1.0, 2.5, 30.0])
            )
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


class Killed(BaseException):
    """The process is gone."""


@pytest.mark.parametrize("step", ["locate", "write", "wake"])
def test_a_driver_that_dies_in_the_middle_leaves_a_table_that_the_next_one_puts_right(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    sent = [reading("a", minute, 1.0) for minute in range(5)]
    send(lab, *sent)
    lab.ingest()
    queries_of(lab).turn(0)
    sent += [reading("a", 2.5, 7.0), reading("b", 90, 3.0)]
    send(lab, *sent[-2:])
    lab.ingest()

    def die(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(*{"wake": (type(lab.outbox), "wake")}.get(step, (Upsert, step)), die)
        with pytest.raises(Killed):
            queries_of(lab).turn(0)
    queries_of(lab).turn(0)

    assert minutes(lab) == by_minute(sent)
    assert len(lab.snapshots("minutes")) == 2
    lab.announce()
    assert [event.origin for event in lab.events("minutes")] == ["ingest", "ingest"]


def test_two_drivers_of_one_pipeline_never_bring_an_older_result_back(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one that hangs has read before the other one wrote."""
    send(lab, reading("a", 1, 1.0))
    lab.ingest()
    queries_of(lab).turn(0)
    send(lab, reading("a", 1, 2.0))
    lab.ingest()
    write = Upsert.write

    def late(self: Upsert, *args: Any) -> Any:
        monkeypatch.setattr(Upsert, "write", write)
        send(lab, reading("a", 1, 3.0))
        lab.ingest()
        queries_of(lab).turn(0)
        return write(self, *args)

    monkeypatch.setattr(Upsert, "write", late)
    with capture_logs() as logs:
        queries_of(lab).turn(0)

    assert minutes(lab) == by_minute([reading("a", 1, one) for one in (1.0, 2.0, 3.0)])
    assert [one["event"] for one in logs if one["log_level"] == "error"] == ["query_failed"]


def test_where_a_source_or_the_query_is_another_one_all_is_computed_anew(lab: Lab) -> None:
    sent = [reading("a", 1, 1.0), reading("b", 2, 2.0)]
    send(lab, *sent)
    lab.ingest()
    queries = queries_of(lab)
    queries.turn(0)
    first = lab.snapshots("readings")[-1].snapshot_id
    send(lab, reading("c", 3, 3.0))
    lab.ingest()
    queries.turn(1_000)
    lab.spark.sql(f"CALL lake.system.rollback_to_snapshot('{lab.name}.readings', {first})")
    with capture_logs() as logs:
        queries.turn(2_000)
    assert minutes(lab) == by_minute(sent)
    assert [one["why"] for one in logs if one["event"] == "query_computed_anew"] == [
        f"{lab.name}.readings was rolled back"
    ]

    query = lab.config.queries[0]
    other = query.model_copy(update={"sql": query.sql.replace("max(celsius) > -100", "max(celsius) > 1.5")})
    lab.config = lab.config.model_copy(update={"queries": (other,)})
    queries_of(lab).turn(0)
    assert minutes(lab) == by_minute(sent[1:])


def test_a_table_that_somebody_rolled_back_is_computed_up_to_now(lab: Lab) -> None:
    send(lab, reading("a", 1, 1.0))
    lab.ingest()
    queries = queries_of(lab)
    queries.turn(0)
    first = lab.snapshots("minutes")[-1].snapshot_id
    send(lab, reading("a", 1, 2.0), reading("b", 1, 2.0))
    lab.ingest()
    queries.turn(1_000)
    lab.spark.sql(f"CALL lake.system.rollback_to_snapshot('{lab.name}.minutes', {first})")
    queries.turn(2_000)

    assert minutes(lab) == by_minute([reading("a", 1, 1.0), reading("a", 1, 2.0), reading("b", 1, 2.0)])


BAD = [
    (
        "SELECT date_trunc('MINUTE', at) AS minute, sensor, count",
        "SELEC date_trunc(",
        "[PARSE_SYNTAX_ERROR] Syntax error",
    ),
    (
        "FROM NS.readings",
        "FROM NS.nobody",
        "[TABLE_OR_VIEW_NOT_FOUND] The table or view `NS`.`nobody` cannot be found",
    ),
    (
        "AS minute, sensor FROM changes",
        "AS minute FROM changes",
        "has no column 'sensor', which is in the key",
    ),
    ("GROUP BY 1, 2", "GROUP BY 1, 2, celsius", "gives several rows for one key, as for {'minute'"),
    ("AS hottest", "AS _file", "column '_file' of NS.bad4 has the name of one of Iceberg's own"),
    ("max(celsius) AS hottest", "map('a', 1) AS hottest", "say `to_json(hottest)`"),
    ("NS.readings: SELECT", "NS.elsewhere: SELECT", "cannot be run: [TABLE_OR_VIEW_NOT_FOUND]"),
    ("days(minute)", "days(moment)", "partition_by names 'moment', which NS.bad7 does not have"),
    ("NS.readings: SELECT", "NS.plain: SELECT", "whose rows do not say where in Kafka they were"),
]


def test_queries_that_cannot_be_run_say_what_is_wrong_and_stop_nobody_else(lab: Lab) -> None:
    lab.spark.sql(f"CREATE NAMESPACE IF NOT EXISTS lake.{lab.name}")
    lab.spark.sql(f"CREATE TABLE lake.{lab.name}.plain (sensor STRING, at TIMESTAMP) USING iceberg")
    bad = []
    for number, (old, new, _) in enumerate(BAD):
        text = lab.text.replace(old.replace("NS", lab.name), new.replace("NS", lab.name))
        assert text != lab.text
        query = parse_yaml(text, "streams.yaml", StreamsConfig).queries[0]
        bad.append(query.model_copy(update={"table": f"{lab.name}.bad{number}"}))
    good = lab.config.queries[0].model_copy(update={"table": f"{lab.name}.good"})
    lab.config = lab.config.model_copy(update={"queries": (*bad, good)})
    send(lab, reading("a", 1, 1.0), reading("a", 1.5, 2.0))
    lab.ingest()
    queries = queries_of(lab)
    with capture_logs() as logs:
        queries.turn(0)

    told = [one for one in logs if one["event"] == "query_failed"]
    assert [one["table"] for one in told] == [one.table for one in bad]
    for one, (_, _, words) in zip(told, BAD, strict=True):
        assert words.replace("NS", lab.name) in one["error"]
        assert one["refused"]
    assert len(lab.rows("good")) == 1
    assert queries.failures == {**{one.table: 1 for one in bad}, good.table: 0}


def emitting(lab: Lab, **emit: str) -> str:
    query = lab.config.queries[0]
    topic = f"{lab.name}.alerts"
    lab.config = lab.config.model_copy(
        update={"queries": (query.model_copy(update={"emit": Emit(topic=topic, **emit)}),)}
    )
    return topic


def sent_to(lab: Lab, topic: str) -> list[tuple[str, Any, bytes | None]]:
    found = []
    for one in lab.read(topic):
        assert one.key is not None
        row = None if one.value is None else json.loads(one.value)
        found.append(
            (
                json.loads(one.key)["sensor"],
                row and (row["readings"], row["hottest"]),
                one.headers["isotherm.id"],
            )
        )
    return found


def test_rows_are_sent_on_at_once_each_with_an_id_that_stays(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = emitting(lab)
    send(lab, reading("a", 1, 1.0))
    lab.ingest()

    def die(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(Upsert, "write", die)
        with pytest.raises(Killed):
            queries_of(lab).turn(0)
    queries_of(lab).turn(0)
    (_, first, one), (_, again, other) = sent_to(lab, topic)
    assert (first, again, one) == ((1, 1.0), (1, 1.0), other)
    send(lab, reading("a", 1, 5.0), reading("b", 1, -200.0))
    lab.ingest()
    queries_of(lab).turn(0)
    assert {(sensor, row) for sensor, row, _ in sent_to(lab, topic)[2:]} == {("a", (2, 5.0))}


def test_windows_are_sent_once_they_are_final_and_again_where_they_change(lab: Lab) -> None:
    topic = emitting(lab, when="final", time="minute", after="10m")
    queries = queries_of(lab)
    for turn, (minute, hot) in enumerate([(1, 1.0), (5, 2.0), (14, 3.0), (30, 4.0), (31, 5.0)]):
        send(lab, reading("a", minute, hot))
        lab.ingest()
        queries.turn(1_000 * turn)
    final = sorted(row for _, row, _ in sent_to(lab, topic))
    assert final == [(1, 1.0), (1, 2.0), (1, 3.0)]
    send(lab, reading("a", 5.2, 9.0))
    lab.ingest()
    queries_of(lab).turn(0)
    rows = [row for _, row, _ in sent_to(lab, topic)]
    assert sorted(rows[:3]) == final
    assert (2, 9.0) in rows[3:]
    assert (1, 4.0) not in rows


def test_a_truncate_of_a_source_touches_every_row(lab: Lab) -> None:
    query = Query(
        table=f"{lab.name}.paid",
        key=("id",),
        sql=f"SELECT id, max_by(name, _offset) AS name FROM {lab.name}.orders "
        f"WHERE _offset > coalesce((SELECT max(_offset) FROM {lab.name}.orders WHERE _op = 't'), -1) GROUP BY id",
        changes={f"{lab.name}.orders": "SELECT id FROM changes"},
    )
    lab.config = lab.config.model_copy(update={"queries": (query,)})
    lab.make_topics("orders")
    source = Source("orders")
    lab.send("orders", source.insert(1), source.insert(2))
    lab.ingest()
    queries = queries_of(lab)
    queries.turn(0)
    assert {1: "n1", 2: "n2"} == {row["id"]: row["name"] for row in lab.rows("paid")}
    lab.send("orders", source.truncate(), source.insert(2, name="new"))
    lab.ingest()
    queries.turn(1_000)
    assert {2: "new"} == {row["id"]: row["name"] for row in lab.rows("paid")}


def query_of(lab: Lab, name: str, key: str, sql: str, **changes: str) -> Query:
    """Over tables of the lab, whose names stand without it."""
    told = {f"{lab.name}.{one}": text for one, text in changes.items()}
    return Query(table=f"{lab.name}.{name}", key=(key,), sql=sql.replace("NS.", f"{lab.name}."), changes=told)


def test_a_query_over_the_table_of_another_one_follows_it_also_where_that_has_nothing_to_write(
    lab: Lab,
) -> None:
    hot = query_of(
        lab,
        "hot",
        "sensor",
        "SELECT sensor, max(celsius) AS c FROM NS.readings GROUP BY 1 HAVING max(celsius) > 50",
        readings="SELECT sensor FROM changes",
    )
    both = query_of(
        lab, "both", "sensor",
        "SELECT r.sensor, count(*) AS n, max(h.c) AS hottest FROM NS.readings r LEFT JOIN NS.hot h ON h.sensor = r.sensor GROUP BY 1",
        readings="SELECT sensor FROM changes",
    )  # fmt: skip
    lab.config = lab.config.model_copy(update={"queries": (both, hot)})
    queries = queries_of(lab)
    for turn, celsius in enumerate([1.0, 2.0, 99.0]):
        send(lab, reading("a", turn, celsius))
        lab.ingest()
        for late in (0, 1):  # the second stands before the first in the file
            queries.turn(100_000 * turn + 10_000 * late)
        assert [(turn + 1, celsius if celsius > 50 else None)] == [
            (row["n"], row["hottest"]) for row in lab.rows("both")
        ]


def test_a_table_whose_rows_a_query_could_not_put_right_is_refused(lab: Lab) -> None:
    """Its key is another one now; a column was renamed in the lake; it is another pipeline's; its keys have another type."""
    send(lab, reading("a", 1, 1.0))
    lab.ingest()
    queries_of(lab).turn(0)
    send(lab, reading("b", 2, 2.0))
    lab.ingest()
    own, table = lab.config.queries[0], f"lake.{lab.name}.minutes"
    before = minutes(lab)

    def refused(query: Query) -> str:
        lab.config = lab.config.model_copy(update={"queries": (query,)})
        with capture_logs() as logs:
            queries_of(lab).turn(0)
        (told,) = [one["error"] for one in logs if one["event"] == "query_failed"]
        return str(told)

    by_sensor = f"SELECT sensor, count(*) AS readings FROM {lab.name}.readings GROUP BY 1"
    assert "is kept by" in refused(own.model_copy(update={"key": ("sensor",), "sql": by_sensor}))
    casts = dict.fromkeys(own.changes, "SELECT at AS minute, CAST(1 AS BIGINT) AS sensor FROM changes")
    assert "gives 'sensor' as BIGINT" in refused(own.model_copy(update={"changes": casts}))
    lab.spark.sql(f"ALTER TABLE {table} RENAME COLUMN readings TO events")
    assert "has no column 'readings' any more" in refused(own)
    lab.spark.sql(f"ALTER TABLE {table} RENAME COLUMN events TO readings")
    lab.spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('ingest.pipeline'='somebody')")
    assert "is another's (ingest.pipeline is 'somebody')" in refused(own)
    lab.spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('ingest.pipeline'='{lab.name}')")
    assert minutes(lab) == before
    lab.config = lab.config.model_copy(update={"queries": (own,)})
    queries_of(lab).turn(0)
    assert len(minutes(lab)) == 2


def test_a_final_row_that_is_gone_is_taken_back_and_one_that_could_not_be_sent_is_sent_later(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = emitting(lab, when="final", time="minute", after="10m")
    query = lab.config.queries[0]
    sql = query.sql.replace("max(celsius) > -100", "max(celsius) < 50")
    lab.config = lab.config.model_copy(update={"queries": (query.model_copy(update={"sql": sql}),)})
    queries, real = queries_of(lab), type(lab.broker).send

    def away(self: Any, records: Any) -> None:
        if any(one.topic == topic for one in records):
            raise BrokerError("away")
        real(self, records)

    for turn, minute in enumerate([1, 30]):
        send(lab, reading("a", minute, 1.0))
        lab.ingest()
        with monkeypatch.context() as patch:
            patch.setattr(type(lab.broker), "send", away)
            queries.turn(1_000 * turn)
    queries.turn(10_000)
    assert [row for _, row, _ in sent_to(lab, topic)] == [(1, 1.0)]
    send(lab, reading("a", 1.5, 99.0))
    lab.ingest()
    queries.turn(20_000)
    assert [row for _, row, _ in sent_to(lab, topic)] == [(1, 1.0), None]
