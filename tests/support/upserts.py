"""Changes of a mirror as they are once decoded, written by the upsert alone: no Kafka, no messages."""

import itertools
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pyiceberg.manifest import ManifestEntryStatus

from isotherm.contract.identity import partition_key, scalar
from isotherm.contract.summary import INGEST_PIPELINE, INGEST_TOKEN
from isotherm_ingest.plan.places import Place
from isotherm_ingest.session import FORCED
from isotherm_ingest.sql.survey import Survey
from isotherm_ingest.streams import MIRROR_PROPERTIES
from isotherm_ingest.tables.lake import Lake, SpecField
from isotherm_ingest.tables.offsets import Source
from isotherm_ingest.tables.portion import Prepared
from isotherm_ingest.tables.upsert import Upsert
from support.spark import CATALOG

COLUMNS = {"id": "BIGINT", "name": "STRING", "region": "STRING", "at": "TIMESTAMP"}
START = datetime(2024, 1, 1, tzinfo=UTC)
KEPT = "the value is not told"
"""Of a column whose value stays as it is."""
PIPELINE = "shop"
_CHANGE = "op STRING, ts TIMESTAMP, lsn BIGINT, topic STRING, partition INT, offset BIGINT, kept ARRAY<STRING>, problem STRING"
_numbers = itertools.count(1)


def hour(number: float) -> datetime:
    return START + timedelta(hours=number)


@dataclass(frozen=True)
class Put:
    """A row as it is from now on; columns that are not said are null."""

    id: int
    values: dict[str, Any] = field(default_factory=dict)
    op: str = "u"


@dataclass(frozen=True)
class Delete:
    """A row is gone; `before` is what the message has of it."""

    id: int
    before: dict[str, Any] = field(default_factory=dict)


class Mirror:
    """One table, and what a plain dict says that it holds."""

    def __init__(
        self,
        spark: Any,
        folder: Any,
        partitioned_by: str = "",
        key: tuple[str, ...] = ("id",),
        columns: dict[str, str] | None = None,
        **properties: str,
    ) -> None:
        self.spark = spark
        self.key = key
        self.columns = dict(columns or COLUMNS)
        self.lake = Lake(CATALOG, folder.pyiceberg_properties)
        self.name = f"upserts.t{next(_numbers)}"
        self.rows: dict[tuple[Any, ...], dict[str, Any]] = {}
        self.offset = 0
        for name, value in FORCED.items():  # as the sessions of writers have it
            spark.conf.set(name, value)
        spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {CATALOG}.upserts")
        settings = {
            **MIRROR_PROPERTIES,
            **{name.replace("__", "."): value for name, value in properties.items()},
        }
        said = ", ".join(f"'{name}'='{value}'" for name, value in settings.items())
        body = ", ".join(f"{name} {kind}" for name, kind in self.columns.items())
        spark.sql(
            f"CREATE TABLE {self.spark_name} ({body}) USING iceberg "
            f"{f'PARTITIONED BY ({partitioned_by})' if partitioned_by else ''} TBLPROPERTIES ({said})"
        )

    @property
    def spark_name(self) -> str:
        return f"{CATALOG}.{self.name}"

    # A plain dict's answer

    def fold(self, changes: Any) -> None:
        """What the changes make of the rows."""
        for change in changes:
            match change:
                case Put(number, values):
                    row = {name: values.get(name) for name in self.columns} | {"id": number}
                    key = tuple(row[name] for name in self.key)
                    old = self.rows.get(key, {})
                    untold = {name for name in old if name not in self.columns}
                    kept = {name for name, value in row.items() if value == KEPT} | untold
                    self.rows[key] = row | {name: old.get(name) for name in kept}
                case Delete(number, before):
                    self.rows.pop(tuple((before | {"id": number})[name] for name in self.key), None)

    # What others do

    def evolve(self) -> None:
        """Cut what comes from now on in another way."""
        now = self.lake.load(self.name)
        assert now is not None
        if now.spec:
            self.spark.sql(f"ALTER TABLE {self.spark_name} DROP PARTITION FIELD {_term(now.spec[0])}")
        else:
            self.spark.sql(f"ALTER TABLE {self.spark_name} ADD PARTITION FIELD days(at)")

    def compact(self) -> None:
        """Rewrite every file."""
        options = "map('rewrite-all', 'true')"
        self.spark.sql(
            f"CALL {CATALOG}.system.rewrite_data_files(table => '{self.name}', options => {options})"
        )

    def fill_own_column(self) -> None:
        """Somebody adds a column, and a value to every row."""
        now = self.lake.load(self.name)
        assert now is not None
        if "mine" not in now.columns:
            self.spark.sql(f"ALTER TABLE {self.spark_name} ADD COLUMN mine STRING")
        self.spark.sql(f"UPDATE {self.spark_name} SET mine = concat('mine ', id)")
        for row in self.rows.values():
            row["mine"] = f"mine {row['id']}"

    # The upsert

    def prepared(self, changes: Any) -> Prepared:
        """The changes as a batch that is ready to be written to the table as it is now."""
        names = list(self._columns_now())
        rows = []
        for change in changes:
            values = change.values if isinstance(change, Put) else change.before
            # As decoding says it: also of columns that the messages lack.
            kept = sorted(name for name in names if values.get(name) == KEPT or name not in self.columns)
            row = [None if name in kept else values.get(name) for name in names]
            row[names.index("id")] = change.id
            rows.append((change.op if isinstance(change, Put) else "d", kept, tuple(row)))
        return self._prepared_rows(rows)

    def write_rows(self, rows: Any) -> None:
        """Write changes that are pairs of an op, the columns that are kept, and all columns as the table has them."""
        self._write(self._prepared_rows(rows), set().update)

    def write_view(self, view: str, rows: int) -> None:
        """Write the changes of a view."""
        self._write(self._prepared_view(view, rows, frozenset()), set().update)

    def _prepared_rows(self, rows: Any) -> Prepared:
        kinds = self._columns_now()
        body = ", ".join(f"{name}: {kind}" for name, kind in kinds.items())
        change_type = ", ".join(one.strip().replace(" ", ": ", 1) for one in _CHANGE.split(","))
        decoded = []
        for op, kept, row in rows:
            decoded.append((row, (op, START, 1, "t", 0, self.offset, list(kept), None)))
            self.offset += 1
        view = f"decoded_{next(_numbers)}"
        frame = self.spark.createDataFrame(decoded, f"row struct<{body}>, change struct<{change_type}>")
        frame.createOrReplaceTempView(view)
        return self._prepared_view(view, len(rows), frozenset(name for _, kept, _ in rows for name in kept))

    def _prepared_view(self, view: str, rows: int, kept: frozenset[str]) -> Prepared:
        now = self.lake.load(self.name)
        assert now is not None
        return Prepared(
            now,
            Place(now.uuid, {}, {}),
            now.columns,
            self.key,
            tuple(name for name in now.columns if name in kept),
            view,
            {},
            Source(),
            Survey(rows, 0, kept, frozenset(), None, {}),
            None,
        )

    def _columns_now(self) -> dict[str, str]:
        now = self.lake.load(self.name)
        assert now is not None
        return now.columns

    def attempt(self, prepared: Prepared) -> Upsert:
        return Upsert(self.spark, self.lake, prepared)

    def upsert(self, changes: Any) -> Upsert:
        """An attempt that has read the table as it is now, and located nothing yet."""
        return self.attempt(self.prepared(changes))

    def _write(self, prepared: Prepared, say: Any) -> None:
        attempt = self.attempt(prepared)
        try:
            attempt.write(attempt.locate(), self.summary(), say)
        finally:
            attempt.close()

    def apply(self, *changes: Any) -> set[str]:
        """Write a batch; gives the partitions that were told before the commit."""
        said: set[str] = set()
        self._write(self.prepared(changes), said.update)
        self.fold(changes)
        return said

    def summary(self) -> dict[str, str]:
        return {INGEST_PIPELINE: PIPELINE, INGEST_TOKEN: str(self.offset)}

    # Answers of Spark

    def found(self, sql: str | None = None) -> list[tuple[Any, ...]]:
        rows = self.spark.sql(sql) if sql else self.spark.table(self.spark_name)
        return sorted((tuple(row) for row in rows.collect()), key=str)

    def expected(self) -> list[tuple[Any, ...]]:
        now = self.lake.load(self.name)
        assert now is not None
        rows = [tuple(_naive(row.get(name)) for name in now.columns) for row in self.rows.values()]
        return sorted(rows, key=str)

    def rows_that_differ_from(self, other: "Mirror") -> int:
        """Rows that one of the two has and the other has not."""
        a, b = (f"SELECT * FROM {one.spark_name}" for one in (self, other))
        both = f"SELECT * FROM ({a} EXCEPT ALL {b}) UNION ALL SELECT * FROM ({b} EXCEPT ALL {a})"
        return len(self.found(both))

    def partitions(self) -> set[str]:
        """The partitions of the newest snapshot's own files, as PyIceberg has them."""
        now = self.lake.load(self.name)
        assert now is not None
        table, head = now.table, now.table.current_snapshot()
        assert head is not None
        found = set()
        for manifest in head.manifests(table.io):
            fields = table.specs()[manifest.partition_spec_id].fields
            for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=False):
                if entry.snapshot_id == head.snapshot_id and entry.status != ManifestEntryStatus.EXISTING:
                    values = entry.data_file.partition
                    found.add(
                        partition_key({one.field_id: scalar(values[at]) for at, one in enumerate(fields)})
                    )
        return found

    def files(self) -> list[str]:
        """What lies in the table's data folder."""
        now = self.lake.load(self.name)
        assert now is not None
        folder = Path(now.table.location().removeprefix("file:"), "data")
        return sorted(str(path) for path in folder.rglob("*") if path.suffix in {".parquet", ".puffin"})


def _term(field: SpecField) -> str:
    match field.transform:
        case "identity":
            return field.column
        case "bucket" | "truncate":
            return f"{field.transform}({field.width}, {field.column})"
        case _:
            return f"{field.transform}({field.column})"


def _naive(value: Any) -> Any:
    """As Spark gives timestamps to Python: local time, here UTC's."""
    return value.replace(tzinfo=None) if isinstance(value, datetime) else value
