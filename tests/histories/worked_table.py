"""A table on a disk that Spark SQL writes while a daemon maintains it: how it is made, and what may happen to it."""

from dataclasses import dataclass
from pathlib import Path

from pyiceberg.exceptions import NoSuchTableError

from histories.sql import PARTITIONED, REGIONS, SqlTable
from isotherm.contract.paths import normalised

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

    @staticmethod
    def time(hour: int) -> str:
        """The beginning of an hour of the stream, for Spark."""
        return f"TIMESTAMP '2026-01-{1 + hour // 24:02d} {hour % 24:02d}:00:00'"

    def rows(self, count: int) -> str:
        """As a source: new keys and old ones, in the newest hours and late ones, nulls too."""
        self.hour += self.chance.random() < 0.5
        values = []
        for _ in range(count):
            key, hour = self.chance.randrange(60), max(self.hour - self.chance.choice((0, 0, 1, 2)), 0)
            region = self.chance.choice(REGIONS)
            values.append(f"(CAST({key} AS BIGINT), {self.time(hour)}, {region}, {key})")
        return f"(SELECT * FROM VALUES {', '.join(values)} AS v(id, at, region, n))"


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


def statistics(world: WorkedTable) -> str | None:
    """Spark computes what it knows of the head's columns, or partitions, and the metadata names the file."""
    if world.head is None:
        return None
    is_of_partitions = bool(world.seen.spec().fields) and world.chance.random() < 0.5
    what = "compute_partition_stats" if is_of_partitions else "compute_table_stats"
    return world.sql(f"CALL {world.java.name}.system.{what}(table => '{world.spark_name}')")
