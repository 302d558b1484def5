"""Where streaming writers are in their sources, as their sinks keep it in the summaries of snapshots.

A sink that starts again walks from the head back to the newest snapshot that says its place. Where that one is gone, it begins
again, or writes what is there twice.
"""

import json
import random
from collections.abc import Iterator, Sequence

from pyiceberg.table.snapshots import Snapshot

from histories.worked_table import WorkedTable

Writer, Run = str, str
FOR_MS = 14 * 86_400_000
"""For so long a writer may be away."""


def of_flink(chance: random.Random, number: int) -> dict[str, str]:
    """A checkpoint of one of two jobs of a program, or of the only one of another."""
    operator, job = chance.choice((("a7", "1"), ("a7", "1"), ("a7", "2"), ("b3", "3")))
    return {
        "flink.job-id": job,
        "flink.operator-id": operator,
        "flink.max-committed-checkpoint-id": f"{number}",
    }


def _of_connect(chance: random.Random, number: int) -> dict[str, str]:
    return {f"kafka.connect.offsets.control.{chance.choice(('one', 'two'))}": json.dumps({"0": number})}


def _of_spark(chance: random.Random, number: int) -> dict[str, str]:
    return {"spark.sql.streaming.queryId": chance.choice("qr"), "spark.sql.streaming.epochId": f"{number}"}


def keep_place(world: WorkedTable) -> str:
    """A streaming writer appends, or says that nothing came, and where it is."""
    world.number += 1
    says = world.chance.choice((of_flink, of_flink, _of_connect, _of_spark))(world.chance, world.number)
    if world.chance.random() < 0.3:
        empty = world.java.catalog.loadTable(world.java.identifier(world.name)).newAppend()
        for name, value in says.items():
            empty = empty.set(name, value)
        empty.commit()
        return f"nothing comes, {says}"
    columns = world.java.spark.table(world.spark_name).schema.fields[4:]
    more = "".join(f", CAST(NULL AS {one.dataType.simpleString()}) AS {one.name}" for one in columns)
    rows = world.java.spark.sql(f"SELECT *{more} FROM {world.rows(world.chance.randint(1, 4))}")
    writer = rows.writeTo(world.spark_name)
    for name, value in says.items():
        writer = writer.option(f"snapshot-property.{name}", value)
    writer.append()
    return f"rows come, {says}"


def needed(history: Sequence[Snapshot], now_ms: int) -> Iterator[tuple[str, Snapshot]]:
    """The newest place of each run that may go on, by what a sink looks for, in the history of `main`, newest first.

    A run of Flink is over once the same program was started again. Where another run of it wrote before and after its last
    snapshot, there are two jobs, and neither is over.
    """
    places = [(place, *run) for place, one in enumerate(history) if (run := _run_of(one)) is not None]
    for run in sorted({run for _, _, run in places}):
        here = [place for place, _, of in places if of == run]
        writer = next(of for _, of, other in places if other == run)
        others: dict[Run, list[int]] = {}
        for place, of, other in places:
            if of == writer and other != run:
                others.setdefault(other, []).append(place)
        newest = min(here)
        is_followed = any(max(found) < newest for found in others.values())
        are_two = any(min(found) < newest < max(found) for found in others.values())
        if (are_two or not is_followed) and now_ms - history[newest].timestamp_ms < FOR_MS:
            yield run, history[newest]


def _run_of(snapshot: Snapshot) -> tuple[Writer, Run] | None:
    said = {} if snapshot.summary is None else snapshot.summary.additional_properties
    if "flink.operator-id" in said:
        operator = said["flink.operator-id"]
        return operator, f"job {said['flink.job-id']} of operator {operator}"
    names = [name for name in said if name.startswith("kafka.connect.offsets.")]
    if "spark.sql.streaming.queryId" in said:
        names.append(said["spark.sql.streaming.queryId"])
    return (names[0], names[0]) if names else None


def is_upsert_of_flink(snapshot: Snapshot) -> bool:
    """Whether Flink's sink deleted rows with it: in format 3 its next commit looks through the whole history for vectors."""
    said = {} if snapshot.summary is None else snapshot.summary.additional_properties
    return "flink.operator-id" in said and bool({"added-dvs", "added-equality-delete-files"} & set(said))
