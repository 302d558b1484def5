"""What writers that know rows by their keys do to a table, as Flink's and Kafka Connect's sinks; and who deletes bit by bit."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa

from histories.worked_table import WorkedTable
from support.equality import delete_by, keys


def keyed_deletes(world: WorkedTable) -> str | None:
    """As Flink writes an upsert's deletes: some keys, beside the files of a partition."""
    files = data_files(world)
    if world.version == 1 or not files:
        return None
    like, said = world.chance.choice(files), []
    for _ in range(world.chance.choice((1, 2, 3))):
        if world.chance.random() < 0.8:
            column, of = ("id", pa.int64(), 1), sorted({world.chance.randrange(60) for _ in range(3)})
        else:
            column, of = ("region", pa.string(), 3), [world.chance.choice(("alpha", "", None))]
        _delete_keys(world, column, of, like=like)
        said.append(f"{of}")
    return f"equality deletes of {', '.join(said)} in {like.partition()}"


def _delete_keys(
    world: WorkedTable, column: tuple[str, pa.DataType, int], of: Iterable[Any], **where: Any
) -> None:
    table = keys(column, rows=[(one,) for one in of])
    folder = world.folder / "data"
    delete_by(world.java.spark, world.name, folder, table, [column[2]], catalog=world.java.name, **where)


def trickle(world: WorkedTable) -> str:
    """A row goes, and another, and another: each time a small delete file is left, unless it takes the place of one."""
    there = world.java.spark.sql(f"SELECT DISTINCT id FROM {world.spark_name} ORDER BY id").collect()
    gone = world.chance.sample([one["id"] for one in there], min(3, len(there)))
    for one in gone:
        world.sql(f"DELETE FROM {world.spark_name} WHERE id = {one}")
    return f"deletes of {gone}"


def data_files(world: WorkedTable) -> list[Any]:
    """The live data files, in an order that is the same each time a history is played."""
    table = world.java.catalog.loadTable(world.java.identifier(world.name))
    tasks = table.newScan().planFiles().iterator()
    files = []
    while tasks.hasNext():
        files.append(tasks.next().file())

    def place(file: Any) -> tuple[Any, ...]:
        number, name = file.dataSequenceNumber() or 0, Path(file.location()).name
        return number, f"{file.partition()}", file.recordCount(), file.fileSizeInBytes(), name

    return sorted(files, key=place)
