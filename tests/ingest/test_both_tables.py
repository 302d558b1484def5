"""A mirror and a changelog of the same messages, as Spark reads them."""

import random
from collections.abc import Iterator
from typing import Any

import pytest

from isotherm_ingest.tables.writer import TableWriter
from support.changes import Source, latest
from support.ingest_lab import Lab

pytestmark = [pytest.mark.spark, pytest.mark.stack]
STREAMS = r"""
  - topics: NS\.public\.orders
    table: NS.{table}
    mode: changelog + mirror
    partition_by: [days(at)]
    sort_by: [name]
  - topics: NS\.public\.lines
    table: NS.{table}
    changelog_table: NS.{table}_log
    on_hole: backfill
"""
TABLES = ("orders", "lines")


@pytest.fixture
def lab(kafka: Any, spark: Any, lake_folder: Any) -> Iterator[Lab]:
    lab = Lab(kafka, spark, lake_folder, STREAMS)
    lab.make_topics(*TABLES)
    yield lab
    lab.close()


class Died(BaseException):
    """The process dies."""


class Dying(TableWriter):
    """Dies once its rows are to be committed."""

    def write(self, *_: Any) -> Any:
        raise Died


def change(choose: random.Random, source: Source) -> tuple[bytes, bytes]:
    number = choose.randrange(8)
    if number in source.rows and choose.random() < 0.3:
        return source.delete(number)
    if number in source.rows:
        return source.update(number, name=f"n{choose.randrange(100)}")
    return source.insert(number, choose.randrange(60))


@pytest.mark.parametrize("dies", ["orders", "orders_changes"])
def test_the_mirror_is_the_fold_of_the_changelog_whoever_dies_between_the_two_commits(
    lab: Lab, dies: str
) -> None:
    choose, source = random.Random(4), Source("orders")

    def made(name: str, *more: Any) -> TableWriter:
        return (Dying if name == f"{lab.name}.{dies}" else TableWriter)(name, *more)

    for turn in range(4):
        lab.send("orders", *(change(choose, source) for _ in range(15)))
        if turn in {1, 2}:
            lab.again(made)
            with pytest.raises(Died):
                lab.ingest()
            lab.again()
        lab.ingest()

    log = sorted(lab.rows("orders_changes"), key=lambda row: row["_offset"])
    assert [row["_offset"] for row in log] == list(range(60))
    assert [(row["_op"], row["id"], row["name"]) for row in log] == [
        (op, row["id"], row["name"]) for op, row in source.log
    ]
    assert latest(list(source.rows.values())) == latest(lab.rows("orders"))
    assert lab.dead() == []


def test_a_bad_message_is_one_dead_letter_and_a_table_that_is_dropped_is_built_again_alone(lab: Lab) -> None:
    source = Source("lines")
    key, value = source.insert(1)
    lab.send("lines", (key, value), (key, value[:-9]), source.insert(2))
    lab.ingest()
    assert len(lab.dead()) == 1
    lab.spark.sql(f"DROP TABLE lake.{lab.name}.lines_log")
    lab.again()
    lab.send("lines", source.update(2, name="new"))
    lab.ingest()

    assert sorted(row["_offset"] for row in lab.rows("lines_log")) == [0, 2, 3]
    assert latest(list(source.rows.values())) == latest(lab.rows("lines"))
    assert lab.hole("lines_log", "table_rolled_back") + lab.hole("lines_log", "table_made_again") == 1
    assert lab.hole("lines", "table_made_again") == 0
