"""One Spark job for all tables of a batch: Kafka is read once, and the workers write the files of every table.

The workers read Kafka themselves, and report what they did, line by line. What may be large, dead letters and rows that
wait, stays where Spark has it until it is asked for.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial, reduce
from typing import Any

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col

from isotherm_ingest.plan.shares import Ranges, count_of, divided
from isotherm_ingest.plan.topic_partition import Position
from isotherm_ingest.tables.portion import Done, Fill, Filled
from isotherm_ingest.workers.decoding import NOWHERE, decode_stage
from isotherm_ingest.workers.late import Made, made_of
from isotherm_ingest.workers.reading import read_stage
from isotherm_ingest.workers.survey import merged, survey_of
from isotherm_ingest.workers.tasks import (
    COUNT,
    ERROR,
    FILE,
    KEPT,
    KEYS,
    LATE,
    LETTERS,
    NO_TABLE,
    REPORT_DDL,
    SAMPLE,
    SURVEY,
    TRUNCATED,
    WAITING,
    WAITS,
    BatchTask,
    Line,
    Route,
    lines_of,
    rows_of,
)
from isotherm_ingest.workers.writing import fill_stage, whole_stage, write_stage

Sample = tuple[Route, str, str | None]
"""Of messages that nobody knows yet: the value and the key of one."""


@dataclass(frozen=True)
class Report:
    """What the workers made of a batch."""

    samples: tuple[Sample, ...]
    """If there are any, the batch is to be read again, with what they tell."""
    done: Mapping[str, Done]
    """By table."""
    letters: Callable[[], Iterator[pa.Table]]
    """Messages that belong to no table."""
    letter_count: int
    close: Callable[[], object]
    """Let go of what Spark keeps."""
    truncates: Mapping[str, Mapping[Position, int]] = field(default_factory=dict)
    """By table and Kafka partition, the last truncate that the task did not know: it is read again with them, too."""
    lost: Collection[str] = ()
    """Tables that were written as emptied by a truncate that was not met any more: their topic lost it meanwhile."""


SMALL = 5_000
"""Messages up to which a batch is one task: each one more, and bringing rows together, costs what decoding them does."""


def fan_out(
    spark: SparkSession,
    kafka: Mapping[str, Any],
    ranges: Ranges,
    task: BatchTask,
    pieces: Sequence[Ranges] = (),
) -> Report:
    """Read ranges of Kafka, and write the files of the tables; nothing is committed.

    Args:
        spark: runs the job.
        kafka: `workers.reading.reader_properties`.
        ranges: what is read.
        task: what is to be made of it.
        pieces: of the ranges, those that are read. Without any it is all of them.

    Raises:
        Exception: Spark's; files may be left, which no table knows.
    """
    cores = spark.sparkContext.defaultParallelism
    is_small = sum(map(count_of, pieces or [ranges])) <= SMALL
    parts = list(pieces) or divided(ranges, 1 if is_small else cores)
    numbers = spark.range(0, len(parts), 1, 1 if is_small else min(len(parts), cores))
    if is_small:
        written = numbers.mapInArrow(read_stage(kafka, parts, whole_stage(task)), REPORT_DDL)
    else:
        decoded = numbers.mapInArrow(read_stage(kafka, parts, decode_stage(task)), REPORT_DDL)
        wanted = sum(one.buckets for one in task.tables.values())
        spread = decoded.repartition(max(min(cores, wanted), 1), "table", "bucket")
        written = spread.sortWithinPartitions("table", "bucket").mapInArrow(write_stage(task), REPORT_DDL)
    written = written.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        found = written.where(~col("kind").isin(*KEPT)).toArrow()
    except BaseException:
        written.unpersist()
        raise
    lines: dict[str, list[Line]] = {}
    for one in lines_of(found.to_batches()):
        lines.setdefault(one.table, []).append(one)
    done = {
        name: done_of(
            lines.get(name, []),
            partial(_letters, written, name),
            partial(_fill, written, task, name),
        )
        for name in task.tables
    }
    none = lines.get(NO_TABLE, [])
    met = {name: truncates_of(lines.get(name, [])) for name in task.tables}
    below = {name: one.emptied.below for name, one in task.tables.items()}
    return Report(
        tuple(_sample(one) for one in none if one.kind == SAMPLE),
        done,
        partial(_letters, written, NO_TABLE),
        _count(none),
        written.unpersist,
        {name: new for name, found in met.items() if (new := new_of(found, below[name]))},
        {name for name in task.tables if done[name].error is None and is_lost(met[name], below[name])},
    )


def truncates_of(lines: Iterable[Line]) -> dict[Position, int]:
    """The last one of each Kafka partition that the lines of one table tell."""
    found: dict[Position, int] = {}
    for one in lines:
        if one.kind == TRUNCATED:
            topic, partition, offset = one.data()
            found[topic, partition] = max(offset, found.get((topic, partition), offset))
    return found


def new_of(found: Mapping[Position, int], known: Mapping[Position, int]) -> dict[Position, int]:
    """Truncates behind those that are known."""
    return {one: offset for one, offset in found.items() if offset > known.get(one, NOWHERE)}


def is_lost(found: Mapping[Position, int], known: Mapping[Position, int]) -> bool:
    """Whether one that is known was not found again."""
    return any(found.get(one, NOWHERE) < offset for one, offset in known.items())


def done_of(
    lines: Sequence[Line],
    letters: Callable[[], Iterable[pa.Table]],
    fill: Fill,
) -> Done:
    """What the lines of one table say, together with what fetches its letters and writes what waits."""
    keys = [rows_of(one.body) for one in lines if one.kind == KEYS]
    return Done(
        merged(survey_of(one.data()) for one in lines if one.kind == SURVEY),
        tuple(one.data() for one in lines if one.kind == FILE),
        pa.concat_tables(keys) if keys else None,
        letters,
        _count(lines),
        fill if any(one.kind == WAITS for one in lines) else None,
        next((one.data() for one in lines if one.kind == ERROR), None),
        reduce(Made.also, (made_of(one.body) for one in lines if one.kind == LATE), Made()),
    )


def _count(lines: Iterable[Line]) -> int:
    return sum(one.data() for one in lines if one.kind == COUNT)


def _sample(line: Line) -> Sample:
    topic, number, value, key = line.data()
    return (topic, number), value, key


def _of(written: DataFrame, table: str, kind: str) -> DataFrame:
    return written.where((col("kind") == kind) & (col("table") == table))


def _letters(written: DataFrame, table: str) -> Iterator[pa.Table]:
    for row in _of(written, table, LETTERS).select("body").toLocalIterator():
        yield rows_of(bytes(row["body"]))


def _fill(written: DataFrame, task: BatchTask, table: str, old: bytes, kept: tuple[str, ...]) -> Filled:
    waiting = _of(written, table, WAITING)
    found = waiting.mapInArrow(fill_stage(task.tables[table], old, kept), REPORT_DDL).toArrow()
    return filled_of(list(lines_of(found.to_batches())))


def filled_of(lines: Sequence[Line]) -> Filled:
    """What the lines of rows that waited say."""
    return Filled(
        tuple(one.data() for one in lines if one.kind == FILE),
        next((one.data() for one in lines if one.kind == ERROR), None),
    )
