"""A table on a disk that Spark SQL writes while a daemon maintains it: how it is made, and what may happen to it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.exceptions import NoSuchTableError

from histories import sql
from histories.happenings import Step
from histories.sql import PARTITIONED, REGIONS, SqlTable
from isotherm.contract.paths import normalised
from support.equality import delete_by, keys

COPY, MERGE = "copy-on-write", "merge-on-read"
ORDERS = ("", "", "WRITE ORDERED BY region, n", "WRITE LOCALLY ORDERED BY id")


@dataclass
class WorkedTable(SqlTable):
    """A table of format 1 to 3, with times that move on as a stream's do."""

    hour: int = 0
    """The newest hour that was written."""

    def create(self) -> str:
        self.generation += 1
        version = self.chance.choice((1, 2, 2, 2, 2, 3, 3))
        mode = COPY if version == 1 else self.chance.choice((MERGE, MERGE, COPY))
        partitioned, order = self.chance.choice(PARTITIONED), self.chance.choice(ORDERS)
        properties = {
            "format-version": version,
            "write.delete.mode": mode,
            "write.update.mode": mode,
            "write.merge.mode": mode,
            "write.delete.granularity": self.chance.choice(("file", "partition", "partition")),
            "write.distribution-mode": "hash",
            "commit.manifest.min-count-to-merge": self.chance.choice((3, 100)),
            "write.metadata.previous-versions-max": 2,
        }
        said = ", ".join(f"'{key}' = '{value}'" for key, value in properties.items())
        self.sql(
            f"CREATE TABLE {self.spark_name} (id BIGINT, at TIMESTAMP, region STRING, n INT) USING iceberg "
            f"{partitioned} TBLPROPERTIES ({said})"
        )
        if order:
            self.sql(f"ALTER TABLE {self.spark_name} {order}")
        return f"v{version} {mode} {partitioned} {order}"

    def look(self) -> None:
        """Load what the catalog has now; nobody counts files here."""
        try:
            self.seen = self.java.lake.load_table(self.name)
        except NoSuchTableError:
            self.seen = None

    @property
    def folder(self) -> Path:
        """Where its files are."""
        return Path(normalised(self.seen.metadata.location))

    @property
    def newest_version(self) -> Path:
        """The metadata that the catalog names."""
        return Path(normalised(self.seen.metadata_location))

    def rows(self, count: int) -> str:
        """As a source: new keys and old ones, in the newest hours and late ones, nulls too."""
        self.hour += self.chance.random() < 0.5
        values = []
        for _ in range(count):
            key, hour = self.chance.randrange(60), max(self.hour - self.chance.choice((0, 0, 1, 2)), 0)
            region = self.chance.choice(REGIONS)
            at = f"TIMESTAMP '2026-01-{1 + hour // 24:02d} {hour % 24:02d}:00:00'"
            values.append(f"(CAST({key} AS BIGINT), {at}, {region}, {key})")
        return f"(SELECT * FROM VALUES {', '.join(values)} AS v(id, at, region, n))"


def keyed_deletes(world: WorkedTable) -> str | None:
    """As Flink writes an upsert's deletes: some keys, beside the files of a partition."""
    files = _data_files(world)
    if world.version == 1 or not files:
        return None
    like, said = world.chance.choice(files), []
    for _ in range(world.chance.choice((1, 2, 3))):
        if world.chance.random() < 0.8:
            column, of = ("id", pa.int64(), 1), sorted({world.chance.randrange(60) for _ in range(3)})
        else:
            column, of = ("region", pa.string(), 3), [world.chance.choice(("alpha", "", None))]
        table, data = keys(column, rows=[(one,) for one in of]), world.folder / "data"
        delete_by(world.java.spark, world.name, data, table, [column[2]], like=like, catalog=world.java.name)
        said.append(f"{of}")
    return f"equality deletes of {', '.join(said)} in {like.partition()}"


def trickle(world: WorkedTable) -> str:
    """A row goes, and another, and another: each time a small delete file is left, unless it takes the place of one."""
    there = world.java.spark.sql(f"SELECT DISTINCT id FROM {world.spark_name} ORDER BY id").collect()
    gone = world.chance.sample([one["id"] for one in there], min(3, len(there)))
    for one in gone:
        world.sql(f"DELETE FROM {world.spark_name} WHERE id = {one}")
    return f"deletes of {gone}"


def _data_files(world: WorkedTable) -> list[Any]:
    table = world.java.catalog.loadTable(world.java.identifier(world.name))
    tasks = table.newScan().planFiles().iterator()
    files = []
    while tasks.hasNext():
        files.append(tasks.next().file())
    return files


def pin(world: WorkedTable) -> str | None:
    """A tag or a branch on what is retained, some for a time alone."""
    if not world.snapshots:
        return None
    kind, age = (
        world.chance.choice(("TAG", "BRANCH")),
        world.chance.choice(("", "RETAIN 2 HOURS", "RETAIN 3 DAYS")),
    )
    world.number += 1
    return world.sql(
        f"ALTER TABLE {world.spark_name} CREATE {kind} pin{world.number} "
        f"AS OF VERSION {world.chance.choice(world.snapshots)} {age}"
    )


def unpin(world: WorkedTable) -> str | None:
    """One of them is not needed any more."""
    refs = {name: ref for name, ref in world.seen.metadata.refs.items() if name != "main"}
    if not refs:
        return None
    name = world.chance.choice(sorted(refs))
    return world.sql(f"ALTER TABLE {world.spark_name} DROP {refs[name].snapshot_ref_type.upper()} {name}")


def upgrade(world: WorkedTable) -> str | None:
    """To the next format version."""
    if world.version == 3:
        return None
    return world.sql(
        f"ALTER TABLE {world.spark_name} SET TBLPROPERTIES ('format-version' = '{world.version + 1}')"
    )


def leave_an_orphan(world: WorkedTable) -> str:
    """A writer died before it committed a file."""
    world.number += 1
    path = world.folder / "data" / f"left-behind-{world.number}.parquet"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"nobody needs this")
    return f"an orphan: {path.name}"


STEPS: dict[Step, int] = {
    **sql.SQL,
    sql.insert: 14,
    sql.delete: 8,
    keyed_deletes: 8,
    trickle: 2,
    pin: 3,
    unpin: 1,
    upgrade: 1,
    leave_an_orphan: 2,
}
"""Everything, by weight."""
ALONE: dict[Step, int] = {
    step: weight
    for step, weight in STEPS.items()
    if step not in (sql.compact, sql.compact_deletes, sql.regroup, sql.expire)
}
"""Where nobody else maintains the table: equality deletes may be made into position deletes then."""
MIRROR: dict[Step, int] = {
    sql.insert: 6,
    keyed_deletes: 7,
    trickle: 6,
    sql.delete: 2,
    sql.update: 2,
    pin: 1,
    unpin: 1,
    leave_an_orphan: 1,
}
"""Of a writer that upserts by keys, as Flink does."""
STREAM: dict[Step, int] = {sql.insert: 8, pin: 1, unpin: 1, leave_an_orphan: 1}
"""Of a writer that only appends."""
