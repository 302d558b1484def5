"""The same in Spark SQL, with real rows and files: what a table's users and its maintenance say to Spark."""

from histories.happenings import Step
from histories.made_up import MadeUp

PARTITIONED = (
    "",
    "PARTITIONED BY (hours(at))",
    "PARTITIONED BY (days(at), region)",
    "PARTITIONED BY (bucket(3, id))",
    "PARTITIONED BY (truncate(1, region))",
)
TERMS = (
    "hours(at)",
    "days(at)",
    "months(at)",
    "region",
    "bucket(2, id)",
    "bucket(5, id)",
    "truncate(1, region)",
)
REGIONS = ("'alpha'", "'bravo'", "''", "NULL")


class SqlTable(MadeUp):
    """A table that Spark SQL makes and changes."""

    @property
    def spark_name(self) -> str:
        return f"{self.java.name}.{self.name}"

    def create(self) -> str:
        self.generation += 1
        version = self.chance.choice((1, 2, 2, 3))
        # Version 1 knows no deletes.
        mode = self.chance.choice(("merge-on-read", "copy-on-write")) if version > 1 else "copy-on-write"
        partitioned = self.chance.choice(PARTITIONED)
        properties = {
            "format-version": version,
            "write.delete.mode": mode,
            "write.update.mode": mode,
            "write.merge.mode": mode,
            "write.delete.granularity": self.chance.choice(("file", "partition")),
            "write.distribution-mode": "hash",
            "commit.manifest.min-count-to-merge": self.chance.choice((2, 100)),
        }
        said = ", ".join(f"'{key}' = '{value}'" for key, value in properties.items())
        self.sql(
            f"CREATE TABLE {self.spark_name} (id BIGINT, at TIMESTAMP, region STRING, n INT) USING iceberg "
            f"{partitioned} TBLPROPERTIES ({said})"
        )
        self.table = self.java.catalog.loadTable(self.java.identifier(self.name))
        return f"v{version} {mode} {partitioned}"

    def sql(self, text: str) -> str:
        self.java.spark.sql(text).collect()
        return text

    def call(self, procedure: str, **arguments: str) -> str:
        said = ", ".join(f"{name} => {value}" for name, value in arguments.items())
        return self.sql(
            f"CALL {self.java.name}.system.{procedure}(table => '{self.spark_name}', {said})".replace(
                ", )", ")"
            )
        )

    def rows(self, count: int) -> str:
        """As a source: new keys and old ones, in some hours and regions, nulls too."""
        values = []
        for _ in range(count):
            key, hour = self.chance.randrange(60), self.chance.randrange(3)
            region = self.chance.choice(REGIONS)
            values.append(f"(CAST({key} AS BIGINT), TIMESTAMP '2026-01-01 0{hour}:00:00', {region}, {key})")
        return f"(SELECT * FROM VALUES {', '.join(values)} AS v(id, at, region, n))"


def insert(world: SqlTable) -> str:
    """Rows come."""
    more = ", NULL" * (len(world.seen.schema().fields) - 4)
    return world.sql(
        f"INSERT INTO {world.spark_name} SELECT *{more} FROM {world.rows(world.chance.randint(1, 8))}"
    )


def insert_overwrite(world: SqlTable) -> str:
    """The partitions of the new rows are replaced."""
    more = ", NULL" * (len(world.seen.schema().fields) - 4)
    # Only here: the session is everybody's.
    world.java.spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    try:
        return world.sql(f"INSERT OVERWRITE {world.spark_name} SELECT *{more} FROM {world.rows(2)}")
    finally:
        world.java.spark.conf.unset("spark.sql.sources.partitionOverwriteMode")


def delete(world: SqlTable) -> str:
    """Some rows go, or a whole partition."""
    condition = world.chance.choice(
        (f"id % 7 = {world.chance.randrange(7)}", "region = 'alpha'", "at < TIMESTAMP '2026-01-01 01:00:00'")
    )
    return world.sql(f"DELETE FROM {world.spark_name} WHERE {condition}")


def update(world: SqlTable) -> str:
    """Rows change, and some move to another partition."""
    return world.sql(
        f"UPDATE {world.spark_name} SET n = n + 1, region = 'bravo' WHERE id % 5 = {world.chance.randrange(5)}"
    )


def merge(world: SqlTable) -> str:
    """A stream's upsert. One row for each key, or Spark refuses."""
    source = (
        f"(SELECT id, max(at) AS at, max(region) AS region, max(n) AS n FROM {world.rows(10)} GROUP BY id)"
    )
    return world.sql(
        f"MERGE INTO {world.spark_name} t USING {source} s ON t.id = s.id "
        "WHEN MATCHED AND s.id % 3 = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET n = s.n, at = s.at "
        "WHEN NOT MATCHED THEN INSERT (id, at, region, n) VALUES (s.id, s.at, s.region, s.n)"
    )


def compact(world: SqlTable) -> str:
    """Spark's own compaction."""
    options = "'min-input-files', '2', 'remove-dangling-deletes', 'true', 'delete-file-threshold', '1'"
    return world.call("rewrite_data_files", options=f"map({options})")


def regroup(world: SqlTable) -> str:
    """Spark's own rewrite of manifests."""
    return world.call("rewrite_manifests", use_caching="false")


def compact_deletes(world: SqlTable) -> str:
    """Spark's own rewrite of position deletes."""
    return world.call("rewrite_position_delete_files", options="map('rewrite-all', 'true')")


def expire(world: SqlTable) -> str:
    """All but the last few, files too."""
    return world.call("expire_snapshots", older_than="TIMESTAMP '2100-01-01 00:00:00'", retain_last="4")


def roll_back(world: SqlTable) -> str | None:
    """To an ancestor."""
    if len(world.ancestors) < 2:
        return None
    return world.call("rollback_to_snapshot", snapshot_id=str(world.chance.choice(world.ancestors[:4])))


def publish(world: SqlTable) -> str | None:
    """A staged write, audited and picked."""
    world.sql(f"ALTER TABLE {world.spark_name} SET TBLPROPERTIES ('write.wap.enabled' = 'true')")
    world.java.spark.conf.set("spark.wap.id", f"wap-{world.number}")
    world.number += 1
    try:
        insert(world)
    finally:
        world.java.spark.conf.unset("spark.wap.id")
    world.look()
    if world.chance.random() < 0.5:
        insert(world)
        world.look()
    staged = [one for one in world.snapshots if one not in set(world.ancestors)]
    if not staged:
        return None
    return world.call("cherrypick_snapshot", snapshot_id=str(staged[-1]))


def forward(world: SqlTable) -> str:
    """A branch is written, and main takes what it has."""
    name = f"left{world.number}"
    world.number += 1
    world.sql(f"ALTER TABLE {world.spark_name} CREATE BRANCH {name}")
    more = ", NULL" * (len(world.seen.schema().fields) - 4)
    world.sql(f"INSERT INTO {world.spark_name}.branch_{name} SELECT *{more} FROM {world.rows(3)}")
    if world.chance.random() < 0.4:
        return f"branch {name} written"
    return world.call("fast_forward", branch="'main'", to=f"'{name}'")


def evolve(world: SqlTable) -> str:
    """A column comes, a partition field comes or goes, the format version rises."""
    choice = world.chance.choice(("column", "add", "add", "drop", "upgrade"))
    fields = [one.name for one in world.seen.spec().fields]
    if choice == "column":
        world.number += 1
        return world.sql(f"ALTER TABLE {world.spark_name} ADD COLUMN more_{world.number} STRING")
    if choice == "drop" and fields:
        return world.sql(f"ALTER TABLE {world.spark_name} DROP PARTITION FIELD {world.chance.choice(fields)}")
    if choice == "upgrade":
        return world.sql(f"ALTER TABLE {world.spark_name} SET TBLPROPERTIES ('format-version' = '3')")
    return world.sql(f"ALTER TABLE {world.spark_name} ADD PARTITION FIELD {world.chance.choice(TERMS)}")


SQL: dict[Step, int] = {
    insert: 8,
    insert_overwrite: 2,
    delete: 4,
    update: 4,
    merge: 5,
    compact: 3,
    regroup: 2,
    compact_deletes: 2,
    expire: 2,
    roll_back: 2,
    publish: 2,
    forward: 2,
    evolve: 4,
}
"""Everything, by weight."""
