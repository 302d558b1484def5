"""What writers that know rows by their keys do to a table, as Flink's and Kafka Connect's sinks; and who deletes bit by bit."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from histories.places import of_flink
from histories.sql import REGIONS, TERMS
from histories.worked_table import WorkedTable
from isotherm.contract.paths import normalised
from support.equality import delete_by, keys

BULK = 250
"""Rows that make a file which is not small where the target is 2 KiB."""


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


def global_deletes(world: WorkedTable) -> str | None:
    """Keys are deleted in the whole table: by a spec that divides nothing, beside files of one that does."""
    if world.version == 1 or not data_files(world):
        return None
    fields = [one.name for one in world.seen.spec().fields]
    if not _undivided(world):
        for name in fields:
            world.sql(f"ALTER TABLE {world.spark_name} DROP PARTITION FIELD {name}")
        world.look()
    if not _undivided(world):
        return None  # of format 1 once: its fields stay, as void
    of = sorted({world.chance.randrange(60) for _ in range(6)})
    _delete_keys(world, ("id", pa.int64(), 1), of, spec_id=_undivided(world)[0])
    if fields and world.chance.random() < 0.5:
        world.sql(f"ALTER TABLE {world.spark_name} ADD PARTITION FIELD {world.chance.choice(TERMS)}")
    return f"equality deletes of {of} in the whole table"


def _undivided(world: WorkedTable) -> list[int]:
    return [spec_id for spec_id, spec in world.seen.metadata.specs().items() if not spec.fields]


def _delete_keys(
    world: WorkedTable, column: tuple[str, pa.DataType, int], of: Iterable[Any], **where: Any
) -> None:
    table = keys(column, rows=[(one,) for one in of])
    folder = world.folder / "data"
    delete_by(world.java.spark, world.name, folder, table, [column[2]], catalog=world.java.name, **where)


def upsert(world: WorkedTable) -> str | None:
    """As Flink's sink commits: new rows of some keys, and deletes of what there was of them, in one snapshot."""
    files = data_files(world)
    return None if world.version == 1 or not files else _upsert(world, world.chance.choice(files))


def load_and_upsert(world: WorkedTable) -> str | None:
    """A file comes that is not small, and two upserts of its rows: only their deletes keep the old rows away."""
    if world.version == 1:
        return None
    loaded = bulk(world)
    newest = data_files(world)[-1]
    return f"{loaded[:100]}…; {_upsert(world, newest)}; {_upsert(world, newest)}"


def _upsert(world: WorkedTable, like: Any) -> str | None:
    rows = _some_rows(world, like, 3)
    if not rows.num_rows:
        return None
    world.number += 1
    place = rows.schema.get_field_index("n")
    number = pa.array([1000 + world.number] * rows.num_rows, pa.int32())
    rows = rows.set_column(place, rows.schema.field(place), number)
    of = keys(("id", pa.int64(), 1), rows=[(one,) for one in rows.column("id").to_pylist()])
    table = world.java.catalog.loadTable(world.java.identifier(world.name))
    ids = world.java.spark.sparkContext._gateway.new_array(world.java.spark._jvm.int, 1)
    ids[0] = 1
    spec = table.specs().get(like.specId())
    data = world.java.static("DataFiles.builder")(spec)
    deletes = world.java.static("FileMetadata.deleteFileBuilder")(spec).ofEqualityDeletes(ids)
    delta = table.newRowDelta().addRows(_file(world, table, data, like, rows, f"upsert-{world.number}"))
    delta = delta.addDeletes(_file(world, table, deletes, like, of, f"upserted-{world.number}"))
    for name, value in of_flink(world.chance, world.number).items():
        delta = delta.set(name, value)
    delta.commit()
    return f"upsert of {of.column('id').to_pylist()} in {like.partition()}"


def _some_rows(world: WorkedTable, file: Any, most: int) -> pa.Table:
    """Rows of a data file, one of each key at most, with the table's own columns."""
    rows = pq.read_table(normalised(file.location()))
    rows = rows.select(
        [name for name in rows.column_names if name in {one.name for one in world.seen.schema().fields}]
    )
    first: dict[int, int] = {}
    for place, key in enumerate(rows.column("id").to_pylist()):
        first.setdefault(key, place)
    return rows.take([first[key] for key in world.chance.sample(sorted(first), min(len(first), most))])


def _file(world: WorkedTable, table: Any, builder: Any, like: Any, rows: pa.Table, name: str) -> Any:
    """A file with these rows, beside a live one."""
    path = world.folder / "data" / f"{name}.parquet"
    pq.write_table(rows, path, store_schema=False)  # which is as large as the rows
    every = world.java.static("MetricsConfig.getDefault")()
    metrics = world.java.static("parquet.ParquetUtil.fileMetrics")(
        table.io().newInputFile(f"file:{path}"), every
    )
    builder = builder.withPath(f"file:{path}").withFormat("parquet").withMetrics(metrics)
    return builder.withFileSizeInBytes(path.stat().st_size).withPartition(like.partition()).build()


def trickle(world: WorkedTable) -> str:
    """A row goes, and another, and another: each time a small delete file is left, unless it takes the place of one."""
    there = world.java.spark.sql(f"SELECT DISTINCT id FROM {world.spark_name} ORDER BY id").collect()
    gone = world.chance.sample([one["id"] for one in there], min(3, len(there)))
    for one in gone:
        world.sql(f"DELETE FROM {world.spark_name} WHERE id = {one}")
    return f"deletes of {gone}"


def churn(world: WorkedTable) -> str:
    """Into one partition two rows come, and one of them goes, twice: its deletes are of several ages."""
    key, more = world.chance.randrange(60), ", NULL" * (len(world.seen.schema().fields) - 4)
    region = world.chance.choice(REGIONS)
    for _ in range(2):
        world.number += 1
        number = 1000 + world.number
        rows = ", ".join(
            f"(CAST({key} AS BIGINT), {world.time(world.hour)}, {region}, {n})" for n in (number, -number)
        )
        world.sql(f"INSERT INTO {world.spark_name} SELECT *{more} FROM VALUES {rows} AS v(id, at, region, n)")
        world.sql(f"DELETE FROM {world.spark_name} WHERE n = {number}")
    return f"rows of {key} in {region} come and go"


def bulk(world: WorkedTable) -> str:
    """Many rows come to one hour and region: a file that is not small."""
    more = ", NULL" * (len(world.seen.schema().fields) - 4)
    hour, seed = max(world.hour - world.chance.choice((0, 0, 1, 2)), 0), world.chance.randrange(1000)
    return world.sql(
        f"INSERT INTO {world.spark_name} SELECT id % 60, {world.time(hour)}, {world.chance.choice(REGIONS)}, "
        f"hash(id + {seed}){more} FROM range({BULK})"
    )


def hit(world: WorkedTable, path: str) -> str | None:
    """A row of this very file goes."""
    rows = pq.read_table(normalised(path), columns=["id"]).column("id").to_pylist()
    gone = [one for one in rows if one is not None]
    if not gone:
        return None
    return world.sql(f"DELETE FROM {world.spark_name} WHERE id = {world.chance.choice(gone)}")


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
