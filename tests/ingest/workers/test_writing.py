"""The second half of the job: in one task or in several, the same rows come out, and each table fails for itself."""

from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType

from isotherm.parquet.table_description import described
from isotherm_ingest.batches.fan_out import filled_of
from isotherm_ingest.decode.debezium_messages import decoder
from isotherm_ingest.decode.debezium_schema import change_schema
from isotherm_ingest.decode.statement import Wanted
from isotherm_ingest.workers.decoding import decode_stage
from isotherm_ingest.workers.files import arrow_of
from isotherm_ingest.workers.tasks import (
    CHANGES,
    ERROR,
    FILE,
    KEYS,
    WAITING,
    BatchTask,
    TableTask,
    as_arrow,
    lines_of,
    report,
    rows_of,
)
from isotherm_ingest.workers.writing import fill_stage, whole_stage, write_stage
from support.wire import ID, from_kafka, key, message, number_of

ORDERS = "shop.public.orders"
NAMED = [ID, {"field": "name", "type": "string"}]
SCHEMA = Schema(NestedField(1, "id", LongType()), NestedField(2, "name", StringType()))
VALUES = [
    message(NAMED, op="c" if number < 7 else "u", after={"id": number % 7, "name": f"n{number}"})
    for number in range(50)
]


@pytest.fixture
def catalog(tmp_path):
    made = load_catalog(
        "lake", type="sql", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}/w"
    )
    made.create_namespace("shop")
    return made


def task_of(table, topic, *, keys=("id",), description=None):
    name = ".".join(table.name())
    task = TableTask(name, described(table.metadata), {}, ("id", "name"), {}, key=keys, buckets=2)
    of_messages = change_schema(VALUES[0].decode(), key(id=1).decode())
    made = decoder(of_messages, arrow_of(task), Wanted(("id", "name"), keys, keeps=bool(keys)))
    decoders = {(topic, number_of(VALUES[0])): made}
    return TableTask(
        name,
        description or task.description,
        {},
        ("id", "name"),
        decoders,
        key=keys,
        is_empty=True,
        buckets=2,
    )


def one_task(task, batches):
    return list(lines_of(whole_stage(task)(batches)))


def many_tasks(task, batches):
    """As Spark brings lines together: all of a table's bucket to one task, in any order of batches."""
    lines = [line for batch in batches for line in lines_of(decode_stage(task)([batch]))]
    found = []
    for place in range(2):
        mine = [line for line in lines if (len(line.table) + line.bucket) % 2 == place]
        mine.sort(key=lambda line: (line.table, line.bucket))
        found += lines_of(write_stage(task)(report(mine)))
    return found


@pytest.mark.parametrize("play", [one_task, many_tasks])
def test_each_table_gets_its_rows_whoever_writes_them(catalog, play):
    topics = {name: f"shop.public.{name}" for name in ("mirror", "log")}
    tables = {name: catalog.create_table(f"shop.{name}", SCHEMA) for name in topics}
    tasks = {
        "shop.mirror": task_of(tables["mirror"], topics["mirror"]),
        "shop.log": task_of(tables["log"], topics["log"], keys=()),
    }
    routes = {(topic, number_of(VALUES[0])): (f"shop.{name}",) for name, topic in topics.items()}
    batches = [
        from_kafka(*VALUES[first : first + 10], topic=topic, first=first)
        for first in range(0, 50, 10)
        for topic in topics.values()
    ]
    lines = play(BatchTask(tasks, routes, {}), batches)

    assert not [one for one in lines if one.kind in {CHANGES, ERROR}]
    assert rows(lines, "shop.mirror") == sorted({number % 7: f"n{number}" for number in range(50)}.items())
    assert rows(lines, "shop.log") == sorted((number % 7, f"n{number}") for number in range(50))
    found = [row["id"] for one in lines if one.kind == KEYS for row in rows_of(one.body).to_pylist()]
    assert sorted(found) == list(range(7))


@pytest.mark.parametrize("play", [one_task, many_tasks])
def test_a_table_that_cannot_be_written_hinders_no_other(catalog, play):
    topics = ("shop.public.good", "shop.public.bad")
    good, bad = (catalog.create_table(f"shop.{name}", SCHEMA) for name in ("good", "bad"))
    tasks = {
        "shop.good": task_of(good, topics[0]),
        "shop.bad": task_of(bad, topics[1], description="no metadata"),
    }
    routes = {(topic, number_of(VALUES[0])): (f"shop.{topic.rpartition('.')[2]}",) for topic in topics}
    lines = play(BatchTask(tasks, routes, {}), [from_kafka(*VALUES, topic=topic) for topic in topics])

    assert len(rows(lines, "shop.good")) == 7
    assert {one.table for one in lines if one.kind == ERROR} == {"shop.bad"}
    assert not [one for one in lines if one.kind == FILE and one.table == "shop.bad"]


def test_of_rows_that_wait_each_bucket_fails_for_itself_and_the_files_of_the_others_are_told(catalog):
    task = replace(task_of(catalog.create_table("shop.mirror", SCHEMA), ORDERS), is_empty=False, has_ids=True)
    routes = {(ORDERS, number_of(VALUES[0])): ("shop.mirror",)}
    written = many_tasks(BatchTask({"shop.mirror": task}, routes, {}), [from_kafka(*VALUES, topic=ORDERS)])
    good, bad = (one for one in written if one.kind == WAITING)
    old = as_arrow(pa.table({"k0": pa.array([], pa.int64()), "o0": pa.array([], pa.int64())}))
    fill = fill_stage(task, old, ("_row_id",))
    lines = list(lines_of(fill(report([good, replace(bad, body=as_arrow(pa.table({"row": [1]})))]))))

    assert {one.kind for one in lines} == {FILE, ERROR}
    found = filled_of(lines)
    assert 0 < len(rows(lines, "shop.mirror")) < 7
    assert [one["file-path"] for one in found.files] == [one.data()["file-path"] for one in lines[:-1]]
    assert found.error == lines[-1].data()


def rows(lines, table):
    """Read back from the files."""
    paths = [
        one.data()["file-path"].removeprefix("file://")
        for one in lines
        if (one.table, one.kind) == (table, FILE)
    ]
    return sorted((row["id"], row["name"]) for path in paths for row in pq.read_table(path).to_pylist())
